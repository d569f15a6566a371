// The roofline: operations by intensity and rate, under what the chip can do.

const ROOF = { left: 96, right: 18, top: 14, bottom: 40, height: 430 };

/** @param {Model} model */
function rooflineView(model) {
  const { intensity, rate: rates, cycles, bound, name } = model.operations;
  const rows = range(model.rowCount).filter((row) => intensity[row] > 0 && rates[row] > 0);
  const canvas = make("canvas", {
    role: "img",
    "aria-label": `roofline of ${rows.length} operations`,
  });
  const most = rows.reduce((top, row) => Math.max(top, cycles[row]), 1);
  const { bytes_per_second: bandwidth, flops_per_second: peak } = model.roofs;
  const x = logScale(rows.map((row) => intensity[row]).concat(peak ? [peak / bandwidth] : []));
  const y = logScale(rows.map((row) => rates[row]).concat(peak ? [peak] : []));
  const place = (row) => {
    const wide = canvas.clientWidth - ROOF.left - ROOF.right;
    const high = ROOF.height - ROOF.top - ROOF.bottom;
    return {
      left: ROOF.left + x.at(intensity[row]) * wide,
      top: ROOF.top + (1 - y.at(rates[row])) * high,
      size: 3 + 11 * Math.sqrt(cycles[row] / most),
    };
  };
  const draw = () => {
    if (!canvas.clientWidth) return;
    const context = sized(canvas, canvas.clientWidth, ROOF.height);
    drawRoofAxes(context, canvas.clientWidth, x, y);
    drawRoofs(context, canvas.clientWidth, x, y, bandwidth, peak);
    for (const row of rows) {
      const { left, top, size } = place(row);
      context.globalAlpha = 0.6;
      context.fillStyle = themed(colorName(model.text(bound[row]), 8));
      context.beginPath();
      context.arc(left, top, size, 0, 2 * Math.PI);
      context.fill();
      context.globalAlpha = 1;
    }
  };
  const rowAt = ({ offsetX, offsetY }) => {
    let found = null;
    let least = 14;
    for (const row of rows) {
      const { left, top, size } = place(row);
      const away = Math.max(0, Math.hypot(left - offsetX, top - offsetY) - size);
      if (away < least) [found, least] = [row, away];
    }
    return found;
  };
  canvas.addEventListener("pointermove", (event) => {
    const row = rowAt(event);
    if (row === null) return hideHint();
    showHint(
      event,
      make("b", {}, name[row]),
      `${rate(rates[row])} at ${digitsOf(intensity[row])} FLOP a byte`,
      make("div.soft", {}, `${whole(cycles[row])} cycles, bound by ${model.text(bound[row])}`),
    );
  });
  canvas.addEventListener("pointerleave", hideHint);
  canvas.addEventListener("click", (event) => {
    const row = rowAt(event);
    if (row !== null) chooseRow(model, row);
  });
  const redraw = atNextFrame(draw);
  new ResizeObserver(redraw).observe(canvas);
  onTheme(redraw);
  const names = [...new Set(rows.map((row) => model.text(bound[row])))].filter(Boolean).sort();
  const table = shortTable(
    ["operation", "#FLOP a byte", "#rate", "#attainable", "#of roof", "bound by"],
    rows
      .slice(0, 20)
      .map((row) => [
        link(name[row], () => chooseRow(model, row), name[row]),
        digitsOf(intensity[row]),
        rate(rates[row]),
        rate(model.operations.attainable[row]),
        percent(model.operations.roofline[row], 1),
        model.text(bound[row]),
      ]),
  );
  return {
    name: "roofline",
    title: "Roofline",
    note:
      "Each operation by its floating-point operations per byte of operands and results, and their " +
      "rate on one IPU; the larger, the more cycles. Below the line it could be faster.",
    show: redraw,
    element: make(
      "div",
      {},
      make("div.plot", { redraw: draw }, canvas),
      make("ul.legend", {}, ...names.map((each) => make("li", {}, swatch(each, 8), each))),
      panel("Operations that take most", table),
    ),
  };
}

/** Powers of ten around some values, and where a value is among them, 0 to 1. */
function logScale(values) {
  const logs = values.filter((value) => value > 0).map(Math.log10);
  const low = Math.floor(logs.reduce((a, b) => Math.min(a, b), logs.length ? Infinity : 0));
  const high = Math.max(low + 1, Math.ceil(logs.reduce((a, b) => Math.max(a, b), -Infinity)));
  return {
    powers: range(high - low + 1).map((step) => 10 ** (low + step)),
    at: (value) => (Math.log10(value) - low) / (high - low),
    end: 10 ** high,
    begin: 10 ** low,
  };
}

/** Draws both axes. */
function drawRoofAxes(context, width, x, y) {
  const wide = width - ROOF.left - ROOF.right;
  const high = ROOF.height - ROOF.top - ROOF.bottom;
  context.strokeStyle = themed("--hair");
  context.fillStyle = themed("--faint");
  const line = (...points) => {
    context.beginPath();
    context.moveTo(points[0], points[1]);
    context.lineTo(points[2], points[3]);
    context.stroke();
  };
  context.textAlign = "center";
  for (const power of x.powers) {
    const left = ROOF.left + x.at(power) * wide;
    line(left, ROOF.top, left, ROOF.top + high);
    context.fillText(power < 1 ? String(power) : count(power), left, ROOF.top + high + 15);
  }
  context.fillText("FLOP a byte", ROOF.left + wide / 2, ROOF.height - 8);
  context.textAlign = "right";
  for (const power of y.powers) {
    const top = ROOF.top + (1 - y.at(power)) * high;
    line(ROOF.left, top, ROOF.left + wide, top);
    context.fillText(rate(power), ROOF.left - 7, top + 4);
  }
}

/** Draws what the memory of the tiles and the matrix units can do. */
function drawRoofs(context, width, x, y, bandwidth, peak) {
  const wide = width - ROOF.left - ROOF.right;
  const high = ROOF.height - ROOF.top - ROOF.bottom;
  const left = (value) => ROOF.left + x.at(value) * wide;
  const top = (value) => ROOF.top + (1 - y.at(value)) * high;
  const ridge = peak ? peak / bandwidth : x.end;
  context.save();
  context.beginPath();
  context.rect(ROOF.left, 0, wide, ROOF.top + high);
  context.clip();
  context.strokeStyle = themed("--ink");
  context.lineWidth = 1.5;
  context.beginPath();
  context.moveTo(left(x.begin), top(x.begin * bandwidth));
  context.lineTo(left(ridge), top(ridge * bandwidth));
  if (peak) context.lineTo(left(Math.max(x.end, ridge)), top(peak));
  context.stroke();
  context.restore();
  context.lineWidth = 1;
  context.textAlign = "right";
  context.fillStyle = themed("--soft");
  if (peak) context.fillText(`peak ${rate(peak)}`, ROOF.left + wide - 4, top(peak) + 14);
}
