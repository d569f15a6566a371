// The first view: what to know first.

/** @param {Model} model */
function summaryView(model) {
  const { summary, target, program } = model;
  const panels = make(
    "div.panels",
    {},
    remediesPanel(summary),
    panel("Cycles of the busiest IPU", stackedBar(kindParts(summary.by_kind), whole)),
    panel("What operations are bound by", sumNote(model), boundBar(model)),
    panel("Memory of a replica", stackedBar(categoryParts(model), bytes)),
    panel("How far the cycles can be trusted", labelBar(summary)),
    panel("Operations that take most", sumNote(model), topOperations(model)),
    panel("Layers that take most", sumNote(model), topLayers(model)),
    launchesPanel(program),
  );
  return {
    name: "summary",
    title: "Summary",
    element: make("div", {}, cards(summary, target, model), panels),
  };
}

/** Categories of memory of all IPUs; small ones together. */
function categoryParts(model) {
  const sums = new Map();
  for (const { categories } of model.memory) {
    for (const { name, total } of categories) sums.set(name, (sums.get(name) || 0) + total);
  }
  return shortened(
    [...sums].filter(([, size]) => size > 0).sort((a, b) => b[1] - a[1]),
    9,
  );
}

/** The largest parts, and one for all others. */
function shortened(parts, most) {
  if (parts.length <= most) return parts;
  const rest = parts.slice(most - 1);
  const sum = rest.reduce((total, [, size]) => total + size, 0);
  return [...parts.slice(0, most - 1), [`${rest.length} others`, sum]];
}

/** Tells sums over IPUs from the cycles of a launch; nothing for one IPU. */
function sumNote(model) {
  const text = sumText(model);
  return text && make("p.soft", {}, text);
}

/** What `sumNote` says; empty for one IPU. */
function sumText({ target, layers, summary }) {
  const ipus = target.ipus_per_replica;
  if (ipus === 1) return "";
  return (
    `Cycles are sums over the ${ipus} IPUs of a replica: ${whole(layers.cycles[0])} in all, ` +
    `beside ${whole(summary.cycles)} of a launch.`
  );
}

/** Cycles of operations by what they are bound by. */
function boundBar(model) {
  const sums = new Map();
  const { bound, cycles } = model.operations;
  bound.forEach((each, row) => {
    const name = model.text(each);
    sums.set(name, (sums.get(name) || 0) + cycles[row]);
  });
  return stackedBar(
    [...sums].sort((a, b) => b[1] - a[1]),
    whole,
  );
}

/** Cycles by how far they can be trusted. */
function labelBar({ by_label: byLabel }) {
  const parts = Object.entries(byLabel).filter(([, cycles]) => cycles > 0);
  const note =
    "Exact follows from the program, modelled comes from a published formula or figure, " +
    "assumed stands for what nobody has published. A model of the chip, not a measurement.";
  return make("div", {}, stackedBar(parts, whole), make("p.soft", {}, note));
}

/** The most important numbers. */
function cards(summary, target, model) {
  const { worst } = summary;
  const items = [
    [
      "Time of a launch",
      duration(summary.seconds),
      intervalText(summary),
      null,
      "8 of 10 measurements of programs lie in this range around the model",
    ],
    ["Cycles of a launch", whole(summary.cycles), `${summary.label}; ${count(target.clock)}Hz`],
    [
      "Fullest tile",
      bytes(worst.bytes),
      `${percent(worst.bytes, worst.capacity)} of ${bytes(worst.capacity)}`,
      () => choose("tile", `${worst.ipu}.${worst.tile}`),
      `tile ${worst.tile} of IPU ${worst.ipu}`,
    ],
    [
      "Memory",
      bytes(model.memory.reduce((sum, each) => sum + each.total_bytes, 0)),
      `all tiles of ${countOf(target.ipus_per_replica, "IPU")}`,
    ],
    [
      "Speed",
      rate(summary.flops_per_second),
      summary.utilization == null ? "" : `${percent(summary.utilization, 1)} of the peak`,
    ],
  ];
  if (summary.items_per_second != null) {
    items.push(throughputCard(summary));
  }
  if (summary.bubble_share !== null) {
    items.push(["Idle in the pipeline", percent(summary.bubble_share, 1), "of the IPUs' time"]);
  }
  items.push(["Waits for the host", summary.io_bound ? "yes" : "no", "by the modelled traffic"]);
  return make(
    "div.cards",
    {},
    ...items.map(([name, value, note, open, title]) =>
      make(
        "div.card",
        {},
        make("div.name", {}, name),
        make("b", { title: value }, value),
        open ? make("div.note", {}, link(note, open, title)) : make("div.note", { title }, note),
      ),
    ),
  );
}

/** Elements in a second, with the range that measurements lie in. */
function throughputCard({ items_per_second: rate, interval }) {
  const note = interval
    ? `${count(rate / interval[1])} to ${count(rate / interval[0])}/s`
    : "elements, all replicas";
  return [
    "Throughput",
    `${count(rate)}/s`,
    note,
    null,
    "elements of all replicas; 8 of 10 measurements",
  ];
}

/** The range that measurements lie in, or the label without one. */
function intervalText({ seconds, interval, label }) {
  if (!interval) return label;
  return `${duration(seconds * interval[0])} to ${duration(seconds * interval[1])}`;
}

/** The operations that take most. */
function topOperations(model) {
  const { name, cycles, share, bound } = model.operations;
  const rows = range(Math.min(10, model.rowCount)).map((row) => [
    link(name[row], () => chooseRow(model, row), name[row]),
    whole(cycles[row]),
    percent(share[row], 1),
    model.text(bound[row]),
  ]);
  return shortTable(["operation", "#cycles", "#share", "bound by"], rows);
}

/** Layers without layers in them, or with ops of their own. */
function topLayers(model) {
  const { layers } = model;
  const own = range(model.layerCount).filter((layer) => layer && layers.own_cycles[layer] > 0);
  own.sort((a, b) => layers.own_cycles[b] - layers.own_cycles[a]);
  const total = layers.cycles[0];
  const rows = own
    .slice(0, 10)
    .map((layer) => [
      link(model.layerName(layer), () => choose("layer", layer), model.layerName(layer)),
      whole(layers.own_cycles[layer]),
      percent(layers.own_cycles[layer], total),
      bytes(layers.variable_bytes[layer]),
    ]);
  return shortTable(["layer", "#cycles", "#share", "#variables"], rows);
}

/** A change that saves memory; what to write opens below it. */
function remedyLine({
  name,
  instruction,
  saving,
  fits,
  cycles_ratio: ratio,
  ratio_range: reach,
  label,
}) {
  const verdict = fits
    ? make("span.pill.good", {}, "fits")
    : make("span.pill.warn", {}, "not enough");
  const spread = reach ? ` (${reach.map(digitsOf).join(" to ")})` : "";
  const time = ratio === null ? "" : `, ${digitsOf(ratio)}${spread} times the cycles`;
  return make(
    "details",
    {},
    make(
      "summary",
      {},
      verdict,
      " ",
      make("b", {}, name),
      " ",
      make("span.soft", {}, `${bytes(saving)} less on the fullest tile${time} (${label})`),
    ),
    make("pre.code", {}, instruction),
  );
}

/** What would make the program fit; nothing if it does. */
function remediesPanel({ remedies, fits }) {
  if (fits && !remedies.length) return null;
  const found = panel(
    "What would make it need less memory",
    remedies.length
      ? make("div", {}, ...remedies.map(remedyLine))
      : make("p.soft", {}, "Nothing was found; `tensorflow-ipu remedies` searches combinations."),
  );
  found.classList.add("wide");
  return found;
}

/** What the host's clock says. */
function launchesPanel({ launches, host_seconds: seconds }) {
  if (!launches) return null;
  return panel(
    "Launches",
    make(
      "p",
      {},
      `Launched ${countOf(launches, "time")} in ${seconds.toFixed(3)} s of ` +
        "the host's wall time, which says nothing of the chip.",
    ),
  );
}

/** Chooses what is in a row of the operations table: an op, or a transfer. */
function chooseRow(model, row) {
  const op = model.operations.op[row];
  if (op === null) choose("transfer", row);
  else choose("op", op);
}
