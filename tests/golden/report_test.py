#!/usr/bin/env python3
"""`tpinfer report`: the page of a real run, of hostile texts and of a large result, read by a parser and, where Chromium is
installed, by a browser."""
import html.parser
import os
import pathlib
import re
import shutil
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import browser  # noqa: E402
import jobs  # noqa: E402

HOSTILE = ['<script>document.title = "taken"</script>', '"><img src=x onerror="document.title = 1">', "</pre></svg></style><script>alert(1)</script>",
           "' onmouseover='alert(1)", "javascript:alert(1)", "&lt;b&gt; &amp; &#60;", "\u202eright to left\u202c and \u0000 NUL", "a" * 3000,
           "Grüße, 日本, 😀"]
PICTURES = os.environ.get("TPINFER_PICTURES")  # a folder: screenshots are kept there


class Page(html.parser.HTMLParser):
    """Tags must be balanced; gathers them with their attributes, the texts, and the titles of pictures' parts."""
    VOID = {"meta", "link"}

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.texts = [], [], []
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, (tag, self.open)
        self.open.pop()

    def handle_data(self, data):
        self.texts.append(data)

    def text(self):
        return " ".join(" ".join(self.texts).split())


def report(file, page, want=0):
    r = jobs.start(0, "report", str(file), "-o", str(page))
    if r.returncode != want:
        raise AssertionError(f"exit {r.returncode}, wanted {want}: {r.stderr}")
    return page.read_text(encoding="utf-8") if want == 0 and str(page) != "-" else r.stderr


def hostile_records():
    records = [{"id": f"{i} {text[:200]}", "prompt": text, "meta": {"m": text}, "params": {"max_new_tokens": 3 + 5 * i}} for i, text in enumerate(HOSTILE)]
    return records + [{"id": f"bad {text[:100]}", "prompt": "x", "params": {text[:50]: 1}} for text in HOSTILE[:3]]


class Report(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = jobs.Workplace()
        folder = cls.place.path / "<b>models & 'more'"
        shutil.copytree(jobs.MODELS / "tiny-mixtral", folder)
        cls.place.run(3, folder, hostile_records(), want=5)
        cls.file, cls.page = cls.place.path / "a.h5", cls.place.path / "page.html"
        cls.text = report(cls.file, cls.page)
        cls.parsed = Page(cls.text)

    @classmethod
    def tearDownClass(cls):
        cls.place.__exit__()

    def test_nothing_from_outside_is_markup(self):
        tags = {tag for tag, _ in self.parsed.tags}
        self.assertFalse(tags & {"script", "img", "iframe", "object", "embed", "form", "base", "foreignobject", "use", "image"})
        for tag, attrs in self.parsed.tags:
            self.assertFalse([a for a in attrs if a.startswith("on") or a in ("src", "xlink:href", "srcdoc", "action")], (tag, attrs))
            if "href" in attrs:
                self.assertTrue(attrs["href"].startswith("#") or attrs["href"] == "data:,", attrs)
            if "style" in attrs:
                self.assertRegex(attrs["style"], r"^height:[\d.]+px$")
        self.assertEqual({a.get("http-equiv") for tag, a in self.parsed.tags if tag == "meta"} - {None}, {"Content-Security-Policy"})
        for text in HOSTILE[:3]:  # it is there, as text
            self.assertIn(text, self.parsed.text())
        self.assertIn("models & 'more'", self.parsed.text())
        self.assertNotIn("\u202e", self.text)

    def test_ids_are_used_once_and_found(self):
        ids = [a["id"] for _, a in self.parsed.tags if "id" in a]
        self.assertEqual(len(ids), len(set(ids)))
        for _, attrs in self.parsed.tags:
            for name in attrs.get("aria-labelledby", "").split() + [attrs.get("href", "")[1:] if attrs.get("href", "").startswith("#") else ""]:
                self.assertTrue(not name or name in ids, name)
        pictures = [a for tag, a in self.parsed.tags if tag == "svg"]
        self.assertGreater(len(pictures), 10)
        self.assertTrue(all(a["role"] == "img" for a in pictures))

    def test_numbers_are_those_of_the_file(self):
        text = self.parsed.text()
        with jobs.h5py.File(self.file) as h:
            done = int((h["prompts/status"][:] == 0).sum())
            self.assertIn(f"prompts answered {done} of {len(HOSTILE) + 3}", text)
            self.assertIn(f"tokens of answers {int(h['results/n_tokens'][:].sum())} ", text)
            names = h["ranks/weights/class_names"].asstr()[:].tolist()
            attention = [i for i, n in enumerate(names) if n in ("q", "k", "v", "attn_out")]
            for rank, planned in enumerate(h["ranks/weights/planned_by_class"][:]):
                self.assertIn(f"rank {rank} planned, attention: {short_bytes(planned[attention].sum())}", text)
            for name in h["plan/tensors/name"].asstr()[:]:
                parts = re.split(r"(?<=\.)\d+(?=\.)", name)
                self.assertTrue(all(part in text for part in parts), name)
        self.assertRegex(text, r"layers\.\{0-\d+\}\.block_sparse_moe\.experts\.\{0-\d+\}\.w1\.weight")
        self.assertRegex(text, r"rank 2: \d+ to \d+ \([\d.]+ [kM]?B each\)")

    def test_where_the_page_goes(self):
        r = jobs.start(0, "report", str(self.file), "-o", "-")
        self.assertEqual(r.stdout, self.text)
        self.assertIn("is the result file itself", report(self.file, self.file, want=2))
        self.assertIn("nowhere", report(self.file, self.place.path / "nowhere" / "p.html", want=7))
        self.assertIn("missing.h5", report(self.place.path / "missing.h5", self.page, want=3))


def short_bytes(value):
    for factor, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B")):
        if value >= factor:
            scaled = float(f"{value / factor:.3g}")
            return f"{scaled:g} {unit}"
    return "0 B"


class Browser(unittest.TestCase):
    """What a real browser makes of the page."""
    COLLISIONS = """[...document.querySelectorAll('svg')].flatMap(svg => {
      const outer = svg.getBoundingClientRect(), boxes = [...svg.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()]);
      const faults = [];
      boxes.forEach(([a, p], i) => {
        if (p.left < outer.left - 1 || p.right > outer.right + 1 || p.top < outer.top - 1 || p.bottom > outer.bottom + 1) faults.push(a + ' is cut off');
        boxes.slice(i + 1).forEach(([b, q]) => {
          if (p.left < q.right - 1 && q.left < p.right - 1 && p.top < q.bottom - 3 && q.top < p.bottom - 3) faults.push(a + ' over ' + b);
        });
      });
      return faults; })"""
    SMALLEST = "Math.min(...[...document.querySelectorAll('svg text')].map(t => parseFloat(getComputedStyle(t).fontSize) * t.getScreenCTM().a))"
    # the least contrast of letters with what they stand on
    CONTRAST = """(() => {
      const light = c => { const v = c.match(/[\\d.]+/g).slice(0, 3).map(x => x / 255).map(x => x <= .03928 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4);
        return .2126 * v[0] + .7152 * v[1] + .0722 * v[2]; };
      const back = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (c !== 'rgba(0, 0, 0, 0)') return c; } };
      return Math.min(...[...document.querySelectorAll('svg text, p, td, th, dt, dd, a, b, small, figcaption, li, summary')].map(e => {
        const style = getComputedStyle(e), a = light(e instanceof SVGElement ? style.fill : style.color), b = light(back(e));
        return (Math.max(a, b) + .05) / (Math.min(a, b) + .05); })); })()"""

    @classmethod
    def setUpClass(cls):
        if not browser.CHROMIUM:
            raise unittest.SkipTest("chromium is not installed")
        Report.setUpClass()
        cls.browser = browser.Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.__exit__()
        Report.tearDownClass()

    def look(self, name, **how):
        self.assertEqual(self.browser.open(Report.page, **how), [])
        self.assertEqual(self.browser.value("document.title"), "a.h5 - tpinfer report")
        if PICTURES:
            self.browser.value("document.querySelectorAll('details').forEach(d => d.open = true)")
            self.browser.picture(pathlib.Path(PICTURES) / f"{name}.png")
        width = how.get("width", 1200)
        self.assertLessEqual(self.browser.value("document.documentElement.scrollWidth"), width)
        self.assertEqual(self.browser.value(self.COLLISIONS), [])
        self.assertGreaterEqual(self.browser.value(self.SMALLEST), 9.5)
        self.assertGreaterEqual(self.browser.value(self.CONTRAST), 4.5)

    def test_light(self):
        self.look("light")
        self.assertEqual(self.browser.value("getComputedStyle(document.body).backgroundColor"), "rgb(255, 255, 255)")

    def test_dark(self):
        self.look("dark", dark=True)
        self.assertNotEqual(self.browser.value("getComputedStyle(document.body).backgroundColor"), "rgb(255, 255, 255)")

    def test_phone(self):
        self.look("phone", width=390, height=844)

    def test_a_narrow_phone_in_the_dark(self):
        self.look("narrow", width=360, height=640, dark=True)


if __name__ == "__main__":
    unittest.main()
