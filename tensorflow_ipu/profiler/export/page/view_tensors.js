// The table of tensors.

/** @param {Model} model */
function tensorsView(model) {
  const { tensors } = model;
  const rows = range(model.tensorCount);
  const table = new Table({
    label: "tensors",
    columns: tensorColumns(model),
    sort: "bytes",
    id: String,
    open: (tensor) => choose("tensor", tensor),
  });
  const texts = lazily(() =>
    rows.map((row) =>
      `${tensors.name[row]}\n${model.layerName(tensors.layer[row])}\n${model.text(tensors.kind[row])}`.toLowerCase(),
    ),
  );
  let shown = null;
  const show = () => {
    if (shown === (state.q || "")) return;
    shown = state.q || "";
    const words = shown.toLowerCase().split(/\s+/).filter(Boolean);
    table.fill(rows.filter((row) => words.every((word) => texts()[row].includes(word))));
  };
  return {
    name: "tensors",
    title: "Tensors",
    count: model.tensorCount,
    full: true,
    show,
    tools: [filterField("tensors", "filter by name, kind or layer")],
    element: table.element,
    chosen: (thing) => {
      const name = thing && thing.kind === "tensor" ? String(thing.id) : null;
      if (name !== table.chosen) table.choose(name, name !== null);
    },
  };
}

/** Columns of the tensors. */
function tensorColumns(model) {
  const { tensors } = model;
  const text = (key, title, width) => ({
    key,
    title,
    width,
    value: (row) => model.text(tensors[key][row]),
  });
  return [
    {
      key: "name",
      title: "Tensor",
      width: "minmax(250px, 2fr)",
      value: (row) => tensors.name[row],
      show: (row) => pathText(tensors.name[row] || ""),
    },
    {
      key: "bytes",
      title: "Bytes",
      width: "118px",
      number: true,
      value: (row) => tensors.bytes[row],
    },
    text("dtype", "Type", "84px"),
    { key: "shape", title: "Shape", width: "150px", value: (row) => shapeText(tensors.shape[row]) },
    text("kind", "Kind", "84px"),
    text("role", "Role", "134px"),
    { key: "ipu", title: "IPU", width: "52px", number: true, value: (row) => tensors.ipu[row] },
    {
      key: "users",
      title: "Used by",
      width: "74px",
      number: true,
      note: "number of ops",
      value: (row) => tensors.users[row].length,
    },
    {
      key: "layer",
      title: "Layer",
      width: "200px",
      value: (row) => model.layerName(tensors.layer[row]),
    },
    text("source", "Line", "minmax(160px, 1fr)"),
    text("label", "Label", "84px"),
  ];
}
