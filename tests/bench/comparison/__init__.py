"""Parts of compare.py, roofline.py and their kin."""
