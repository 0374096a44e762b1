#!/usr/bin/env python3
"""Writes more.jsonl: templates of our own, with what Python's jinja2 (3.1.6) makes of them.

The environment is the one of Hugging Face's chat templates: sandboxed and immutable, trim_blocks, lstrip_blocks, break and
continue, generation blocks, its own tojson, raise_exception and strftime_now; no autoescape.

    pip install jinja2==3.1.6; python3 make_more.py > more.jsonl
"""
import datetime
import json

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = datetime.datetime(2025, 2, 3, 4, 5, 6)


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_render"), [], [], body).set_lineno(line)

    def _render(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                        extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals.update(raise_exception=raise_exception, strftime_now=lambda form: NOW.strftime(form))
    return env


X = {"x": 7, "l": [3, 1, 2], "d": {"z": 1, "items": 5}, "text": "ab<c>", "tools": ["t"]}
TALK = {"messages": [{"role": "system", "content": " Be brief. "}, {"role": "user", "content": "1+1?\n"},
                     {"role": "assistant", "content": None, "tool_calls": [
                         {"id": "c1", "function": {"name": "add", "arguments": {"a": 1, "b": [2.0, None, "é"]}}}]},
                     {"role": "tool", "content": [{"type": "text", "text": "2"}]}, {"role": "assistant", "content": "2"}],
        "tools": [{"type": "function", "function": {"name": "add", "parameters": {"properties": {"a": {"type": "integer"}}}}}],
        "bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": True}

MARKS = """{%- for m in messages -%}
    {%- if loop.first and m.role != 'system' -%}
        {{- '<|system|>default<|end|>\\n' -}}
    {%- endif -%}
    {%- if m.content is string %}
        {%- set text = m.content | trim %}
    {%- elif m.content %}
        {%- set text = m.content | selectattr('type', 'equalto', 'text') | map(attribute='text') | join('\\n') %}
    {%- else %}
        {%- set text = '' %}
    {%- endif -%}
    {{- '<|' ~ m['role'] ~ '|>' ~ text -}}
    {%- for call in m.tool_calls %}
        {{- '\\n<call>' }}{{ call.function.arguments | tojson }}{{ '</call>' }}
    {%- endfor -%}
    {{- '<|end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"""
STATE = """{{ bos_token }}
{%- macro schema(tool) -%}
  {%- for name, kind in tool.function.parameters.properties.items() -%}
    {{ name }}: {{ kind.type }}{{ ', ' if not loop.last }}
  {%- endfor -%}
{%- endmacro -%}
{%- set ns = namespace(user=0, system='') -%}
{%- for m in messages -%}
  {%- if m.role == 'system' -%}{%- set ns.system = m.content -%}{%- continue -%}{%- endif -%}
  {%- if m.role == 'user' -%}{%- set ns.user = ns.user + 1 -%}
[U{{ ns.user }}]{{ (ns.system ~ '\\n' if ns.system and ns.user == 1 else '') ~ m.content }}
  {%- elif m.role == 'assistant' -%}{% generation %}{{ m.content or 'call' }}{{ eos_token }}{% endgeneration %}
  {%- endif -%}
{%- endfor %}
{% if tools is not none and tools %}
# Tools
{% for tool in tools %}
- {{ tool.function.name }}({{ schema(tool) }})
  {{ tool | tojson(indent=2) | indent(2) }}
{% endfor %}
{% endif %}"""

CASES = [
    # where a variable comes from before it is set
    (X, "{% set x %}[{{ x }}]{% endset %}{{ x }}"),
    (X, "{% macro f() %}{{ x }}{% endmacro %}{{ f() }}{% set x = 1 %}{{ f() }}"),
    (X, "{{ x }}{% macro f() %}{{ x }}{% endmacro %}{{ f() }}{% set x = 1 %}{{ f() }}"),
    (X, "{% macro f() %}{{ x }}{% set x = 5 %}{{ x }}{% endmacro %}{{ f() }}{{ x }}"),
    (X, "{% if x > 9 %}{% set x = 1 %}{% endif %}{{ x }}"),
    (X, "{% if x > 9 %}{% set x = 1 %}{% else %}{% set y = 1 %}{% endif %}{{ x }}{{ y }}"),
    (X, "{% for i in l %}{% if i == 1 %}{% set x = x + i %}{% endif %}{{ x }}{% endfor %}{{ x }}"),
    (X, "{% for i in l %}{% set x = i %}{% for j in [1] %}{% set x = x * 10 %}{{ x }}{% endfor %}{{ x }};{% endfor %}"),
    (X, "{% with x = 1, y = x %}{{ x }}{{ y }}{% endwith %}"),
    (X, "{% generation %}{% set x = 1 %}{{ x }}{% endgeneration %}{{ x }}"),
    (X, "{% for i in l %}{% generation %}{{ loop.index }}{% endgeneration %}{% endfor %}"),
    (X, "{% for x in l if x > 1 %}{{ x }}{% else %}{{ x }}{% endfor %}{{ x }}"),
    (X, "{% for i in l %}{% for j in l if loop.index == 1 %}{{ j }}{% endfor %}{% endfor %}"),
    ({}, "{% for j in [1] if loop.index == 1 %}{{ j }}{% endfor %}"),
    (X, "{% for i in l %}{% set loop = 1 %}{% endfor %}"),
    (X, "{% macro m(a, x=x) %}{{ x }}{% endmacro %}{{ m(1) }}{{ m(1, 2) }}"),
    (X, "{% macro m() %}{{ caller(1) if caller is defined else '-' }}{% endmacro %}{{ m() }}{% call(v) m() %}{{ v }}{{ x }}{% endcall %}"),
    (X, "{% for i in l %}{% continue %}{% else %}else{% endfor %}"),
    (X, "{% set a %}{% for i in l %}{% if i == 1 %}{% break %}{% endif %}{{ i }}{% endfor %}{% endset %}{{ a }}"),
    # texts marked safe
    (X, "{{ text | safe }}{{ ('<' | safe) + '<' }}{{ '&' + (text | safe) }}{{ ('<' | safe) ~ '<' }}"),
    (X, "{{ (text | escape) + (text | e | upper) }}{{ text | e | tojson }}{{ [text | safe] }}"),
    (X, "{{ ((text | safe)[2:] + '>') * 2 }}{{ (text | safe) is escaped }}{{ (text | safe | trim) + '\"' }}"),
    # slices and constants
    ({}, "{{ none[1:] }}|{{ 5[::2] }}|{{ [1, 2][-1:] }}"),
    ({"n": None}, "{{ n[1:] }}"),
    ({}, "{% set a = none[1:] %}"),
    ({}, "{{ range(10)[2:8:3] }}{{ range(10)[::-1] }}{{ range(5)[9:] }}"),
    # numbers
    ({}, "{{ 7 // -2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ -7.5 // 2 }} {{ -7.5 % 2 }} {{ 2 ** -2 }} {{ true + true }}"),
    ({"n": 18446744073709551615}, "{{ n }} {{ n + 1 }} {{ n | tojson }} {{ n == n + 0.0 }}"),
    ({}, "{{ 9007199254740993 == 9007199254740992.0 }}{{ 1e22 }}{{ 123456789012345680.0 }}{{ 5e-324 }}{{ -0.0 }}{{ 1.0e100 }}"),
    ({}, "{{ 0.5 | round }}{{ 1.5 | round }}{{ 2.675 | round(2) }}{{ 25 | round(-1) }}{{ 35 | round(-1) }}{{ 1.21 | round(1, 'ceil') }}"),
    ({}, "{{ '1_0' | int }}{{ '_1' | int(7) }}{{ '0b11' | int(0, 2) }}{{ ' 12\\n' | int }}{{ '1e2' | int }}{{ '-3.9' | int }}{{ '1_0.5' | float }}"),
    # texts
    ({}, "{{ 'ΑΣ ΑΣΑ Σ' | lower }}|{{ \"ΑΣ'\" | lower }}|{{ 'ŉ ǆ ﬁ' | title }}|{{ 'ß' | upper }}|{{ 'ŉa' | capitalize }}"),
    ({}, "{{ 'a\\x1cb\\u2028c\\r\\nd'.splitlines() }}{{ '\\x1f a\\u3000b\\x85'.split() }}{{ 'a  b c'.rsplit(None, 1) }}"),
    ({}, "{{ 'aaa'.replace('a', 'b', 2) }}{{ 'abc'.replace('', '-', 2) }}{{ ''.replace('', 'x') }}{{ 'aXbX'.rsplit('X', 1) }}"),
    ({}, "{{ 'a-b'.partition('-') }}{{ 'ab'.rpartition('-') }}{{ '%s|%d|%r|%%' % ('a', 3, 'b') }}{{ '{} {}'.format(1, none) }}{{ '{1}{0}{a}'.format(1, 2, a=[1]) }}"),
    ({}, "{{ ['\\'', '\"', '\\'\"', '\\\\', '\\x7f', '\\u00ad', '\\U000e0001', 'é'] }}"),
    # filters of items
    (X, "{{ d | items | list }}{{ d.items() | list }}{{ d.items }}"),
    (X, "{% set g = l | map('string') %}{{ g | join }}{{ g | join }}|{{ l | map('nosuch') is defined }}"),
    (X, "{{ l | select('gt', 1) | list }}{{ l | reject('odd') | list }}{{ [{'a': 1}, {'b': 2}] | map(attribute='a', default=0) | list }}"),
    (X, "{{ [['b', 2], ['a', 2], ['B', 1]] | sort(attribute='1,0') }}{{ ['b', 'A', 'a'] | unique | list }}{{ ['b', 'A', 'a'] | min }}"),
    (X, "{{ l | last }}{{ {} | last is defined }}{{ 'ab' | last }}{{ d | first }}{{ l | reverse | first }}"),
    (X, "{{ 'upper' is filter }}{{ 'nosuch' is filter }}{{ 'wordcount' is filter }}{{ 'odd' is test }}"),
    ({}, "{{ {1: 'a', true: 'b', 1.0: 'c'} }}{{ {'a': {}} | tojson(indent=2) }}{{ [{}, []] | tojson(indent='--') }}"),
    # what fails
    ({}, "{{ [1, 2] | join(3) | nosuch }}"),
    (X, "{% if x > 9 %}{{ x | nosuch }}{% endif %}{{ 'ok' if x else x | nosuch }}"),
    (X, "{% for i in l %}{% if i > 9 %}{{ i | nosuch }}{% endif %}{% endfor %}ok"),
    (X, "{% if true %}{% for i in [] %}{{ i | nosuch }}{% endfor %}{% endif %}"),
    (X, "{{ raise_exception('no ' ~ x) }}"),
    (X, "{% set d.z = 2 %}"),
    (X, "{% set a, b = l %}"),
    (X, "{{ l.append(1) }}"), (X, "[{{ l.append }}]"), (X, "{{ x.y.z }}"), (X, "{{ {[1]: 2} }}"),
    # white space
    (X, "a\n  {%- if x +%}\n  b\n  {%+ endif -%}\n c"), (X, "{%- raw -%} {{ x }} {%- endraw +%}\n{# a -#}\n b"), (X, "  {# a #}\n\t{% set y = 1 %}\n{{ y }}\n\n"),
    (X, "{{-3}}{{+3}}{{ '}}' }}{{ {'a': {'b': 1}}}}"), ({}, "a{#"), ({}, "a{% raw %}"),
    # whole chat templates
    (TALK, MARKS), (dict(TALK, messages=TALK["messages"][1:2], add_generation_prompt=False), MARKS),
    (TALK, STATE), (dict(TALK, tools=None), STATE), (dict(TALK, messages=[{"role": "user"}]), STATE),
]


def main():
    env = environment()
    for context, template in CASES:
        record = {"template": template, "context": context}
        try:
            record["rendered"] = env.from_string(template).render(**json.loads(json.dumps(context)))
        except Exception as error:
            record["error"] = str(error)
            raised = type(error) is jinja2.exceptions.TemplateError
            syntax = isinstance(error, jinja2.exceptions.TemplateSyntaxError)
            record["error_kind"] = "raised" if raised else "syntax" if syntax else "runtime"
        if "object at 0x" not in record.get("rendered", ""):
            print(json.dumps(record, separators=(",", ":")))


main()
