"""Style and script of the HTML report, which are part of its file."""

# Colours follow what the reader's system prefers, light or dark.
STYLE = """
.ipu-report{--ink:#1d2329;--soft:#5a6572;--paper:#fff;--line:#d5dbe1;--stripe:#f4f6f8;--bad:#b42318;
 --good:#067647;color:var(--ink);background:var(--paper);font:14px/1.45 system-ui,sans-serif}
@media (prefers-color-scheme:dark){.ipu-report{--ink:#e6e9ec;--soft:#a3adb8;--paper:#15191d;
 --line:#39424b;--stripe:#1d2329;--bad:#ff8a7a;--good:#5fd39a}}
.ipu-report h1{font-size:22px;margin:0 0 4px}
.ipu-report h2{font-size:17px;margin:32px 0 8px;border-bottom:1px solid var(--line)}
.ipu-report h3{font-size:14px;margin:16px 0 4px}
.ipu-report .soft,.ipu-report .note{color:var(--soft)}
.ipu-report .bad{color:var(--bad);font-weight:600}
.ipu-report .good{color:var(--good);font-weight:600}
.ipu-report .cards{display:flex;flex-wrap:wrap;gap:10px;margin:14px 0}
.ipu-report .cards div{border:1px solid var(--line);border-radius:6px;padding:8px 14px}
.ipu-report .cards b{display:block;font-size:17px}
.ipu-report .cards span{color:var(--soft);font-size:12px}
.ipu-report svg{width:100%;max-width:900px;height:auto;display:block}
.ipu-report svg text{fill:var(--ink);font:11px system-ui,sans-serif}
.ipu-report .grid{stroke:var(--line);stroke-width:1}
.ipu-report .limit{stroke:var(--bad);stroke-width:2;stroke-dasharray:6 4}
.ipu-report .legend{margin:6px 0;font-size:12px}
.ipu-report .legend span{display:inline-block;margin-right:14px}
.ipu-report .legend i{display:inline-block;width:11px;height:11px;margin-right:5px;
 border-radius:2px}
.ipu-report .scroll{overflow:auto;max-height:420px;border:1px solid var(--line)}
.ipu-report table{border-collapse:collapse;font-size:12.5px;width:100%}
.ipu-report th{position:sticky;top:0;background:var(--stripe);text-align:left;white-space:nowrap}
.ipu-report th button{all:unset;cursor:pointer;font-weight:600}
.ipu-report th button:focus-visible{outline:2px solid currentColor}
.ipu-report th,.ipu-report td{padding:3px 9px;border-bottom:1px solid var(--line)}
.ipu-report td.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
"""

PAGE_STYLE = """
body{margin:0}.ipu-report{padding:24px;max-width:1100px;margin:auto}
@media (prefers-color-scheme:dark){body{background:#15191d}}
"""

# A click on a heading sorts the table by that column, a second one the other way round.
SCRIPT = """
document.querySelectorAll('.ipu-report th button').forEach(function (button) {
  button.addEventListener('click', function () {
    var head = button.parentNode, body = head.closest('table').tBodies[0];
    var column = head.cellIndex, down = head.getAttribute('aria-sort') !== 'descending';
    head.parentNode.querySelectorAll('th').forEach(function (other) {
      other.removeAttribute('aria-sort');
    });
    head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
    var key = function (row) {
      var cell = row.cells[column], value = cell.dataset.v;
      return value === undefined ? cell.textContent : parseFloat(value);
    };
    Array.from(body.rows).sort(function (a, b) {
      var x = key(a), y = key(b);
      var order = typeof x === 'number' ? x - y : x < y ? -1 : x > y ? 1 : 0;
      return down ? -order : order;
    }).forEach(function (row) { body.appendChild(row); });
  });
});
"""
