// The table of operations: what takes cycles.

/** @param {Model} model */
function operationsView(model) {
  const table = new Table({
    label: "operations",
    columns: operationColumns(model),
    sort: "cycles",
    id: String,
    open: (row) => chooseRow(model, row),
  });
  const filter = filterField("operations", "filter by name, type, layer or line");
  const bound = select("bound by", ["", ...distinct(model, "bound")], "bound");
  const ipu = ipuSelect(model, true);
  const sum = make("span.note", { role: "status" });
  const texts = lazily(() => range(model.rowCount).map((row) => operationText(model, row)));
  let shown = null;
  const show = () => {
    const { q = "", bound: by = "", ipu: on = "" } = state;
    const key = `${q}|${by}|${on}`;
    if (key === shown) return;
    shown = key;
    const rows = filteredRows(model, texts, q, by, on);
    table.fill(rows);
    const cycles = rows.reduce((total, row) => total + model.operations.cycles[row], 0);
    const ipus = on === "" ? model.target.ipus_per_replica : 1;
    const of = ipus > 1 ? ` of all ${ipus} IPUs` : "";
    fill(sum, `${whole(rows.length)} operations, ${whole(cycles)} cycles${of}`);
  };
  return {
    name: "operations",
    title: "Operations",
    count: model.rowCount,
    full: true,
    tools: [filter, bound, ipu],
    note: sum,
    element: table.element,
    show,
    chosen: (thing) => markOperation(model, table, thing),
  };
}

/** Marks the row of what is chosen. */
function markOperation(model, table, thing) {
  let name = null;
  if (thing && thing.kind === "transfer") name = String(thing.id);
  if (thing && thing.kind === "op") {
    const rows = model.rowsOf(thing.id);
    const row = rows.find((each) => String(each) === table.chosen) ?? rows[0];
    name = row === undefined ? null : String(row);
  }
  if (name !== table.chosen) table.choose(name, name !== null);
}

/** What the filter looks for words in. */
function operationText(model, row) {
  const { name, type, layer, source } = model.operations;
  return [name[row], model.text(type[row]), model.layerName(layer[row]), model.text(source[row])]
    .join("\n")
    .toLowerCase();
}

/** Rows that have all words, the bound and the IPU that are asked for. */
function filteredRows(model, texts, q, bound, ipu) {
  const words = q.toLowerCase().split(/\s+/).filter(Boolean);
  const { operations } = model;
  return range(model.rowCount).filter(
    (row) =>
      (!bound || model.text(operations.bound[row]) === bound) &&
      (ipu === "" || String(operations.ipu[row]) === ipu) &&
      words.every((word) => texts()[row].includes(word)),
  );
}

/** Different texts of a column of the operations. */
function distinct(model, column) {
  return [...new Set(model.operations[column].map((each) => model.text(each)))]
    .filter(Boolean)
    .sort();
}

/** Columns of the operations. */
function operationColumns(model) {
  const table = model.operations;
  const number = (key, title, note, show, width = "96px") => ({
    key,
    title,
    note,
    width,
    number: true,
    value: (row) => table[key][row],
    show: show && ((row) => show(table[key][row])),
  });
  const text = (key, title, width, note) => ({
    key,
    title,
    width,
    note,
    value: (row) => model.text(table[key][row]),
  });
  const share = (value) => percent(value, 1);
  return [
    {
      key: "name",
      title: "Operation",
      width: "minmax(230px, 2fr)",
      value: (row) => table.name[row],
      show: (row) => pathText(table.name[row]),
    },
    {
      ...number("cycles", "Cycles", "of all runs in a launch", whole, "112px"),
      part: (row) => table.cycles[row] / (table.cycles[0] || 1),
    },
    number("share", "Share", "of the cycles of all operations", share, "72px"),
    {
      key: "split_time",
      title: "Time",
      width: "84px",
      note: "compute, exchange, sync, transfers",
      value: (row) => table.compute[row] / (table.cycles[row] || 1),
      show: (row) => miniBar(operationParts(model, row)),
    },
    {
      ...text("bound", "Bound by", "104px", "what takes most of its time"),
      show: (row) => boundTag(model, table.bound[row]),
    },
    number(
      "roofline",
      "Roofline",
      "time that the roofline needs, of the time taken",
      share,
      "78px",
    ),
    text("partition", "Split", "minmax(150px, 1fr)", "the partition that the planner chose"),
    number(
      "rate",
      "FLOP/s",
      "while it runs, of one IPU",
      (value) => (value ? count(value) : "-"),
      "78px",
    ),
    number("peak_share", "Of peak", "of the chip's peak for its type", share, "72px"),
    number("tiles", "Tiles", "that work", whole, "66px"),
    number("temporary", "Temporary", "bytes on the fullest tile while it runs", bytes, "92px"),
    number("vertex_state", "State", "bytes of vertex state on a tile", bytes, "82px"),
    number("exchange_code", "Exchange code", "bytes on a tile", bytes, "104px"),
    number("compute", "Compute", "cycles", whole, "96px"),
    number("exchange", "Exchange", "cycles", whole, "96px"),
    number("sync", "Sync", "cycles", whole, "84px"),
    number(
      "transfer",
      "Transfer",
      "cycles with the host, streaming memory, other IPUs",
      whole,
      "84px",
    ),
    number("runs", "Runs", "in a launch", whole, "66px"),
    { ...text("type", "Type", "150px"), show: (row) => typeText(model, row) },
    {
      key: "layer",
      title: "Layer",
      width: "180px",
      value: (row) => model.layerName(table.layer[row]),
    },
    number("ipu", "IPU", "within the replica", String, "52px"),
    text("phase", "Phase", "86px"),
    text("source", "Line", "190px", "line of the user's program"),
    text("label", "Label", "84px", "how far the numbers can be trusted"),
  ];
}

/** The type of an operation, and of how many ops a map is. */
function typeText(model, row) {
  const others = model.fusedWith(row).length;
  const type = model.text(model.operations.type[row]);
  return others ? `${type}, map of ${others + 1}` : type;
}

/** The cycles of a row by kind; those of transfers have the name and color of `transfer`. */
function timeParts(table, row, transfer = "transfer") {
  return [
    ["compute", table.compute[row]],
    ["exchange", table.exchange[row]],
    ["sync", table.sync[row]],
    [transfer, table.transfer[row]],
  ];
}

/** The cycles of an operation by kind: its transfers are of the one kind that bounds them. */
function operationParts(model, row) {
  const { operations } = model;
  const kind = operations.transfer[row] ? model.text(operations.bound[row]) : "transfer";
  return timeParts(operations, row, kind);
}

/** The bound of an operation, with its color. */
function boundTag(model, position) {
  const name = model.text(position);
  if (!name) return "-";
  return make("span", { title: model.bounds[name] || name }, swatch(name), ` ${name}`);
}

/** A value that is computed when it is asked for, once. */
function lazily(make) {
  let value;
  let made = false;
  return () => {
    if (!made) value = make();
    made = true;
    return value;
  };
}

/** A field for the filter of a view; what is typed stands in the address. */
function filterField(what, text) {
  const input = make("input.field", {
    type: "search",
    placeholder: text,
    size: 34,
    "aria-label": `filter ${what}`,
    input: () => go({ q: input.value }, true),
  });
  onState(() => {
    if (input.value !== (state.q || "")) input.value = state.q || "";
  });
  return input;
}

/** A choice whose value stands in the address. */
function select(label, values, key, texts = values) {
  const options = values.map((value, i) => make("option", { value }, texts[i] || `${label}: all`));
  const element = make(
    "select.field",
    { "aria-label": label, change: () => go({ [key]: element.value }, true) },
    ...options,
  );
  onState(() => {
    element.value = state[key] || values[0];
  });
  return element;
}

/** The choice of an IPU; nothing for programs of one. */
function ipuSelect(model, all = false) {
  const ipus = model.memory.map((each) => String(each.ipu));
  if (ipus.length < 2) return null;
  const values = all ? ["", ...ipus] : ipus;
  return select(
    "IPU",
    values,
    "ipu",
    values.map((each) => each && `IPU ${each}`),
  );
}

/** The IPU that views of memory show. */
function shownIpu(model) {
  const ipu = Number(state.ipu || 0);
  return model.memory[ipu] ? ipu : 0;
}
