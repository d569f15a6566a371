// What the panel shows of an op or a transfer.

/** What the panel shows of an op. */
function opDetail(model, { id }) {
  const { ops } = model;
  if (id >= model.opCount) return null;
  const rows = model.rowsOf(id);
  return {
    title: ops.name[id],
    path: layerPath(model, ops.layer[id] || 0),
    content: [
      factList([
        ["type", model.text(ops.type[id])],
        ["line", codeText(model.text(ops.source[id]))],
        ["phase", model.text(ops.phase[id])],
        ["IPU", ops.ipu[id]],
        ["stage", ops.stage[id]],
        ["runs", whole(ops.runs[id])],
        ["iterations", ops.trip_count[id]],
        ["label", model.text(ops.label[id])],
      ]),
      rows.length
        ? rows.map((row) => costDetail(model, row))
        : make("p.soft", {}, "It takes no cycles of its own."),
      rows.flatMap((row) => mapList(model, row)),
      operandList(model, id, "inputs", "Inputs"),
      operandList(model, id, "outputs", "Outputs"),
    ],
  };
}

/** The ops that are computed as one map, if a row is of such. */
function mapList(model, row) {
  const others = model.fusedWith(row);
  if (!others.length) return [];
  return linkList(
    "One map",
    [model.operations.op[row], ...others].map((op) => [
      model.ops.name[op],
      model.text(model.ops.type[op]),
      () => choose("op", op),
    ]),
  );
}

/** What an op or a transfer costs. */
function costDetail(model, row) {
  const table = model.operations;
  const range = model.intervals[model.text(table.type[row])];
  const cycles = table.cycles[row];
  return make(
    "div",
    {},
    make(
      "h3",
      {},
      `${whole(table.cycles[row])} cycles (${percent(table.share[row], 1)} of all operations)`,
    ),
    stackedBar(
      operationParts(model, row).filter(([, size]) => size > 0),
      whole,
    ),
    factList([
      ["bound by", table.bound[row] === null ? null : boundTag(model, table.bound[row])],
      ["", model.bounds[model.text(table.bound[row])] || null],
      [
        "interval",
        range && cycles
          ? `${whole(cycles * range[0])} to ${whole(cycles * range[1])}, 8 of 10 measurements`
          : null,
      ],
      ["of the roofline", percentOrNothing(table.roofline[row])],
      [
        "intensity",
        table.intensity[row] === null ? null : `${digitsOf(table.intensity[row])} FLOP a byte`,
      ],
      ["attainable", table.attainable[row] ? rate(table.attainable[row]) : null],
      [
        "rate",
        table.rate[row]
          ? `${rate(table.rate[row])}, ${percent(table.peak_share[row], 1)} of the peak`
          : null,
      ],
      ["FLOP", table.flops[row] === null ? null : count(table.flops[row])],
      ["split", model.text(table.partition[row])],
      ["tiles", whole(table.tiles[row])],
      ["runs", whole(table.runs[row])],
      ["temporary", `${bytes(table.temporary[row])} on the fullest tile`],
      ["vertex state", `${bytes(table.vertex_state[row])} a tile`],
      ["exchange code", `${bytes(table.exchange_code[row])} a tile`],
      ["bytes moved", table.num_bytes[row] ? whole(table.num_bytes[row]) : null],
      ["label", model.text(table.label[row])],
    ]),
  );
}

/** A part in percent; null of what is not known. */
function percentOrNothing(value) {
  return value === null || value === undefined ? null : percent(value, 1);
}

/** A line of the user's program. */
function codeText(text) {
  return text ? make("span.code", {}, text) : null;
}

/** The inputs or outputs of an op, with their bytes. */
function operandList(model, op, side, title) {
  return linkList(
    title,
    model
      .operands(op, side)
      .map(({ tensor, type }) =>
        tensor === null
          ? [type, "no memory", null]
          : [
              `${model.tensors.name[tensor]}  ${type}`,
              bytes(model.tensors.bytes[tensor]),
              () => choose("tensor", tensor),
            ],
      ),
  );
}

/** What the panel shows of a transfer that is no op. */
function transferDetail(model, { id }) {
  const table = model.operations;
  if (id >= model.rowCount) return null;
  return {
    title: table.name[id],
    path: layerPath(model, table.layer[id] || 0),
    content: [
      factList([
        ["kind", model.text(table.type[id])],
        ["IPU", table.ipu[id]],
        ["phase", model.text(table.phase[id])],
        ["line", codeText(model.text(table.source[id]))],
      ]),
      costDetail(model, id),
    ],
  };
}
