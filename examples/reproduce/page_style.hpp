// SPDX-License-Identifier: BSD-3-Clause
//
// How page.html looks: for a screen, a phone, paper, in light and dark.
#pragma once

namespace reproduce {

inline constexpr const char* style = R"(
:root { color-scheme: light dark; --text: #1d1f23; --soft: #5a606b; --back: #ffffff; --line: #d6dae1; --panel: #f5f6f8;
  --link: #0b57a4; --holds: #0a6b3d; --fails: #a8321a; --open: #6b5900; }
@media (prefers-color-scheme: dark) { :root { --text: #e4e6ea; --soft: #a3a9b4; --back: #15171b; --line: #363b44;
  --panel: #1e2126; --link: #8abdf5; --holds: #6fd3a0; --fails: #ff9c82; --open: #e3cb63; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body { margin: 0; background: var(--back); color: var(--text); line-height: 1.55;
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 68rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0.5rem 0 0.75rem; }
h2 { font-size: 1.3rem; line-height: 1.3; margin: 0 0 0.5rem; }
section { margin-top: 2.25rem; padding-top: 1.5rem; border-top: 1px solid var(--line); }
p { margin: 0 0 0.9rem; max-width: 46rem; overflow-wrap: anywhere; }
.setting { white-space: pre-line; }
.note { color: var(--soft); font-size: 0.9rem; }
a { color: var(--link); }
table { border-collapse: collapse; }
th, td { text-align: left; vertical-align: top; padding: 0.5rem 0.75rem; border-bottom: 1px solid var(--line); }
thead th { font-size: 0.85rem; color: var(--soft); font-weight: 600; border-bottom-width: 2px; }
.claims { width: 100%; margin: 0.75rem 0 1.25rem; overflow-wrap: anywhere; }
.claims .verdict { white-space: nowrap; width: 1%; }
.verdict b { font-weight: 600; border: 1px solid; border-radius: 0.3rem; padding: 0.1rem 0.45rem; font-size: 0.9rem; }
.holds b { color: var(--holds); }
.fails b { color: var(--fails); }
.open b { color: var(--open); }
.plots { display: grid; gap: 1rem; margin: 1rem 0; }
.plot { margin: 0; padding: 0.5rem; background: #ffffff; border: 1px solid var(--line); border-radius: 0.4rem;
  max-width: 46rem; overflow-x: auto; }
.plot svg { display: block; width: 100%; min-width: 30rem; height: auto; }
@media (min-width: 64rem) { .plots.several { grid-template-columns: 1fr 1fr; } }
details { margin: 0.5rem 0; }
summary { cursor: pointer; overflow-wrap: anywhere; }
.numbers { overflow-x: auto; background: var(--panel); border-radius: 0.4rem; margin: 0.4rem 0 1rem; padding: 0.25rem 0.5rem; }
.numbers table { font-size: 0.85rem; font-variant-numeric: tabular-nums; }
.numbers th, .numbers td { padding: 0.25rem 0.75rem; text-align: right; }
.numbers td { white-space: nowrap; }
.numbers thead th { vertical-align: bottom; min-width: 6rem; }
@media (max-width: 42rem) {
  .claims thead { display: none; }
  .claims tr { display: block; padding: 0.6rem 0; border-bottom: 1px solid var(--line); }
  .claims td, .claims .verdict { display: block; width: auto; border: 0; padding: 0.15rem 0; }
  .claims td::before { content: attr(data-label); display: block; font-size: 0.8rem; color: var(--soft); }
}
@media print {
  :root { --text: #000000; --soft: #444444; --back: #ffffff; --line: #bbbbbb; --panel: #ffffff; --link: #000000;
    --holds: #0a6b3d; --fails: #a8321a; --open: #6b5900; }
  main { max-width: none; padding: 0; }
  body { font-size: 10pt; }
  h2 { break-after: avoid; }
  .plot, .claims tr { break-inside: avoid; }
  .plot { overflow: visible; }
  .plot svg { min-width: 0; }
}
)";

}  // namespace reproduce
