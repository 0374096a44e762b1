#pragma once

namespace tpinfer {

/// The page's own style. Colours are those of Okabe and Ito, which the colour-blind can tell apart, in a shade for each
/// theme; letters are the system's.
inline constexpr const char* kPageStyle = R"(:root {
  color-scheme: light dark;
  --back: #ffffff; --card: #f6f7f9; --rim: #d9dde3; --ink: #1b1f24; --quiet: #59636e; --link: #0058a3;
  --c0: #0072b2; --c1: #c87800; --c2: #008f68; --c3: #b8608f; --c4: #2b96d2; --c5: #c84f00; --c6: #958700; --c7: #7d8590;
}
@media (prefers-color-scheme: dark) {
  :root {
    --back: #14171b; --card: #1c2127; --rim: #363d46; --ink: #e8ebef; --quiet: #a0a9b4; --link: #74b8f2;
    --c0: #4ba3dd; --c1: #f0a93a; --c2: #2fc39a; --c3: #dc94bb; --c4: #8fd0f7; --c5: #f07f3c; --c6: #e3d84e; --c7: #98a1ac;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--ink); font: 15px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif;
  overflow-wrap: anywhere; -webkit-text-size-adjust: 100%; }
header, main, footer { max-width: 1120px; margin: 0 auto; padding: 0 16px; }
header { padding-top: 20px; }
h1 { font-size: 1.5rem; margin: 0 0 8px; }
h2 { font-size: 1.2rem; margin: 0 0 12px; }
h3 { font-size: 1rem; margin: 20px 0 8px; }
section { margin: 36px 0; scroll-margin-top: 12px; }
a { color: var(--link); }
nav { display: flex; flex-wrap: wrap; gap: 2px 16px; padding: 8px 0; border-bottom: 1px solid var(--rim); }
nav a { padding: 4px 0; text-decoration: none; }
nav a:hover { text-decoration: underline; }
.state { font-size: .85rem; font-weight: 600; padding: 2px 10px; border-radius: 99px; border: 2px solid var(--c2); vertical-align: middle; }
.state.partial { border-color: var(--c1); }
.state.failed { border-color: var(--c5); }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; margin-bottom: 16px; }
.card { background: var(--card); border: 1px solid var(--rim); border-radius: 8px; padding: 10px 14px; display: flex; flex-direction: column; }
.card span, .card small, .note, footer { color: var(--quiet); font-size: .85rem; }
.card b { font-size: 1.25rem; }
.grid { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 420px), 1fr)); gap: 16px; align-items: start; }
figure { margin: 0; background: var(--card); border: 1px solid var(--rim); border-radius: 8px; padding: 12px; max-width: 552px; min-width: 0; }
figcaption { font-weight: 600; margin-bottom: 6px; }
svg { display: block; width: 100%; height: auto; overflow: hidden; }
svg text { fill: var(--ink); font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; font-variant-numeric: tabular-nums; }
svg text.quiet { fill: var(--quiet); }
.rule { stroke: var(--rim); }
.base { stroke: var(--quiet); }
.mark { stroke: var(--quiet); stroke-dasharray: 2 4; }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; }
.dashed { stroke-dasharray: 6 4; }
.band { opacity: .25; }
.hollow { fill-opacity: .35; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 2px 14px; margin: 8px 0 0; padding: 0; font-size: .85rem; }
.legend i { display: inline-block; width: 12px; height: 12px; border-radius: 3px; margin-right: 6px; vertical-align: -1px; }
.f0 { fill: var(--c0); } .f1 { fill: var(--c1); } .f2 { fill: var(--c2); } .f3 { fill: var(--c3); }
.f4 { fill: var(--c4); } .f5 { fill: var(--c5); } .f6 { fill: var(--c6); } .f7 { fill: var(--c7); }
.s0 { stroke: var(--c0); } .s1 { stroke: var(--c1); } .s2 { stroke: var(--c2); } .s3 { stroke: var(--c3); }
.s4 { stroke: var(--c4); } .s5 { stroke: var(--c5); } .s6 { stroke: var(--c6); } .s7 { stroke: var(--c7); }
.b0 { background: var(--c0); } .b1 { background: var(--c1); } .b2 { background: var(--c2); } .b3 { background: var(--c3); }
.b4 { background: var(--c4); } .b5 { background: var(--c5); } .b6 { background: var(--c6); } .b7 { background: var(--c7); }
.tensor { margin: 12px 0; }
.tensor b { font-family: ui-monospace, monospace; font-size: .85rem; }
.strip { background: var(--card); border: 1px solid var(--rim); border-radius: 4px; margin-top: 3px; }
.scroll { overflow-x: auto; margin: 10px 0; }
table { border-collapse: collapse; font-size: .88rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: 4px 14px 4px 0; border-bottom: 1px solid var(--rim); min-width: 3.5em; overflow-wrap: break-word; }
td { max-width: 34em; }
th { color: var(--quiet); font-weight: 600; white-space: nowrap; }
.n { text-align: right; white-space: nowrap; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 4px 18px; margin: 0; }
dt { color: var(--quiet); }
dd { margin: 0; min-width: 0; }
details { margin: 12px 0; }
summary { cursor: pointer; color: var(--link); }
pre { overflow-x: auto; background: var(--card); border: 1px solid var(--rim); border-radius: 8px; padding: 12px; font-size: .85rem; }
footer { padding-bottom: 32px; }
@media (max-width: 520px) {
  header, main, footer { padding-left: 12px; padding-right: 12px; }
  figure { padding: 8px; }
  svg text { font-size: 15px; }
  dl { grid-template-columns: 1fr; gap: 0; }
  dd { margin-bottom: 8px; }
}
)";

}  // namespace tpinfer
