// Memory: of each tile, and over the program.

/** @param {Model} model */
function memoryView(model) {
  const plot = new StackPlot({
    label: "bytes on each tile at its peak",
    height: 270,
    format: bytes,
    title: (tile) => `tile ${tile}`,
    pick: (tile) => choose("tile", `${shownIpu(model)}.${tile}`),
  });
  const below = make("div");
  const note = make("span.note");
  let shown = null;
  const show = () => {
    const ipu = shownIpu(model);
    if (shown === ipu) return;
    shown = ipu;
    const memory = model.memory[ipu];
    plot.fill(
      memory.categories.map(({ name, tiles }) => ({ name, values: spread(tiles, memory.tiles) })),
      memory.capacity,
    );
    plot.moveTo(memory.worst_tile);
    fill(note, memoryNote(memory));
    fill(below, categoryTable(memory));
  };
  const chosen = (thing) => {
    if (thing && thing.kind === "tile" && thing.id === shownIpu(model)) plot.moveTo(thing.tile);
  };
  return {
    name: "memory",
    title: "Memory",
    tools: [ipuSelect(model)],
    note,
    show,
    chosen,
    element: make("div", {}, plot.element, below),
  };
}

/** What to know of the memory of an IPU, in words. */
function memoryNote(memory) {
  const peak = spread(memory.peak, memory.tiles);
  const over = peak.filter((size) => size > memory.capacity).length;
  const matches =
    memory.matches === false
      ? " This release plans other memory than the report says; tensors are those of this release."
      : "";
  return (
    `IPU ${memory.ipu}: ${over ? `${whole(over)} of ` : "none of "}${whole(memory.tiles)} tiles ` +
    `out of memory. Each tile at its own peak; the fullest is tile ${memory.worst_tile}.${matches}`
  );
}

/** The categories with what they take. */
function categoryTable(memory) {
  const rows = memory.categories.map(
    ({ name, always_live: always, label, total, tiles }, index) => {
      const values = spread(tiles, memory.tiles);
      return [
        make("span", {}, swatch(name, index), ` ${name}`),
        always ? "always" : "not always",
        whole(total),
        bytes(values.reduce((a, b) => Math.min(a, b), Infinity)),
        bytes(total / memory.tiles),
        bytes(values.reduce((a, b) => Math.max(a, b), 0)),
        percent(total, memory.total_bytes),
        label,
      ];
    },
  );
  const names = ["category", "live", "#bytes", "#least", "#mean", "#most", "#share", "label"];
  return make(
    "section.panel",
    {},
    make("h3", {}, "Categories: bytes on all tiles, and least, mean and most on a tile"),
    shortTable(names, rows, true),
  );
}

/** @param {Model} model */
function livenessView(model) {
  const moveTo = (step) => go({ step: String(step) }, true);
  const plot = new StackPlot({
    label: "bytes live over the program",
    height: 230,
    format: bytes,
    follows: true,
    title: (step) => `step ${step}, ${stepName(model, shownIpu(model), step)}`,
    pick: moveTo,
  });
  const table = new Table({
    label: "tensors live at the step",
    columns: liveColumns(),
    sort: "worst",
    id: (row) => row.key,
    open: (row) =>
      row.tensor === null
        ? row.op !== undefined && choose("op", row.op)
        : choose("tensor", row.tensor),
  });
  const what = make("div.at");
  const legend = make("ul.legend");
  let shown = null;
  let ipuShown = null;
  const show = () => {
    const ipu = shownIpu(model);
    const step = shownStep(model, ipu);
    if (ipuShown !== ipu) {
      const series = liveSeries(model, model.memory[ipu]);
      plot.fill(series);
      fill(legend, ...series.map(({ name }, i) => make("li", {}, swatch(name, i), name)));
    }
    ipuShown = ipu;
    const key = `${ipu}.${step}`;
    if (key === shown) return;
    shown = key;
    if (plot.place !== step) plot.moveTo(step);
    const live = model.liveAt(ipu, step);
    table.fill(live);
    fill(what, stepText(model, ipu, step, live, moveTo));
  };
  const note =
    "Everything that is in the memory of the IPU at a step: click, or move it with the arrow keys.";
  return {
    name: "liveness",
    title: "Liveness",
    full: true,
    tools: [ipuSelect(model)],
    note,
    show,
    element: make("div.column", {}, plot.element, legend, what, table.element),
  };
}

/** The step that is shown: that of the address, else the peak. */
function shownStep(model, ipu) {
  const { steps } = model.memory[ipu];
  const asked = state.step === undefined || state.step === "" ? NaN : Number(state.step);
  const step = Number.isInteger(asked) && asked >= 0 ? asked : model.peakStep(ipu);
  return Math.max(0, Math.min(steps.op.length - 1, step));
}

/** The name of the op of a step. */
function stepName(model, ipu, step) {
  const op = model.memory[ipu].steps.op[step];
  return op === undefined ? "no op" : model.ops.name[op];
}

/** Values of the plot of liveness: what is always live, then each category of the rest. */
function liveSeries(model, memory) {
  const { steps, stretches } = memory;
  const size = Math.max(1, steps.bytes.length);
  const always = memory.categories
    .filter((category) => category.always_live && category.total)
    .map(({ name, total }) => ({ name, values: new Float64Array(size).fill(total) }));
  const other = new Map();
  const of = (name) => {
    if (!other.has(name)) other.set(name, new Float64Array(size + 1));
    return other.get(name);
  };
  stretches.tensor.forEach((_, i) => {
    const values = of(model.text(stretches.category[i]));
    values[stretches.birth[i]] += stretches.bytes[i];
    values[stretches.death[i] + 1] -= stretches.bytes[i];
  });
  for (const values of other.values()) {
    for (let step = 1; step < size; step += 1) values[step] += values[step - 1];
  }
  memory.temporaries.forEach((each, step) => {
    if (each) of("temporaries")[step] += each * memory.temporary_tiles[step];
  });
  return [...always, ...[...other].map(([name, values]) => ({ name, values: values.slice(0, size) }))];
}

/** The line above the table: the step, its op and its bytes, with buttons to others. */
function stepText(model, ipu, step, live, moveTo) {
  const memory = model.memory[ipu];
  const op = memory.steps.op[step];
  const worst = live.reduce((sum, each) => sum + each.worst, 0);
  const total = memory.always_bytes + (memory.steps.bytes[step] || 0);
  const move = (text, to, title) =>
    make(
      "button.button",
      { type: "button", title, "aria-label": title, click: () => moveTo(to) },
      text,
    );
  return [
    make(
      "span.tools",
      {},
      move("‹", Math.max(0, step - 1), "step before"),
      move("›", Math.min(memory.steps.op.length - 1, step + 1), "step after"),
      move("peak", model.peakStep(ipu), "the step at which most is live"),
    ),
    make("b", {}, `step ${whole(step)} of ${whole(memory.steps.op.length)}`),
    op === undefined ? "" : link(model.ops.name[op], () => choose("op", op)),
    make(
      "span.soft",
      {},
      `${bytes(total)} live on all tiles; tensors and temporaries take ${bytes(worst)} of tile ${memory.worst_tile} at this step`,
    ),
  ];
}

/** Columns of what is live at a step. */
function liveColumns() {
  const life = (row) => (row.birth === null ? "always" : `${row.birth} to ${row.death}`);
  return [
    {
      key: "name",
      title: "Tensor",
      width: "minmax(250px, 2fr)",
      value: (row) => row.name,
      show: (row) => pathText(row.name),
    },
    {
      key: "category",
      title: "Category",
      width: "178px",
      value: (row) => row.category,
      show: (row) => make("span", {}, swatch(row.category), ` ${row.category}`),
    },
    {
      key: "worst",
      title: "On the fullest tile",
      width: "150px",
      number: true,
      value: (row) => row.worst,
      show: (row) => bytes(row.worst),
    },
    {
      key: "bytes",
      title: "Bytes",
      width: "112px",
      number: true,
      value: (row) => row.bytes,
      show: (row) => whole(row.bytes),
    },
    {
      key: "life",
      title: "Live in steps",
      width: "120px",
      value: (row) => row.birth ?? -1,
      show: life,
    },
    { key: "source", title: "Line", width: "minmax(160px, 1fr)", value: (row) => row.source },
  ];
}
