"""Job files as YAML 1.2 has them (PyYAML alone takes off for false and 010 for 8), with text for keys as in JSON."""
import re

import yaml


class Loader(yaml.SafeLoader):
    pass


Loader.yaml_implicit_resolvers = {}
for tag, pattern, first in (("null", r"^(?:~|null|)$", "~n\0"), ("bool", r"^(?:true|false)$", "tf"),
                            ("int", r"^-?(?:0|[1-9][0-9]*)$", "-0123456789"),
                            ("float", r"^-?(?:0|[1-9][0-9]*)(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?$", "-0123456789")):
    Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(pattern), list(first.replace("\0", "")) + [""] * ("\0" in first))


def with_text_keys(value):
    if isinstance(value, dict):
        return {str(k): with_text_keys(v) for k, v in value.items()}
    return [with_text_keys(v) for v in value] if isinstance(value, list) else value


def load(text):
    return with_text_keys(yaml.load(text, Loader))
