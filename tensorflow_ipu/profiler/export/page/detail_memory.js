// What the panel shows of a tensor or a tile.

/** What the panel shows of a tensor. */
function tensorDetail(model, { id }) {
  const { tensors } = model;
  if (id >= model.tensorCount) return null;
  const maker = tensors.maker[id];
  return {
    title: tensors.name[id] || "tensor",
    path: layerPath(model, tensors.layer[id] || 0),
    content: [
      factList([
        ["type", `${model.text(tensors.dtype[id])}, ${shapeText(tensors.shape[id])}`],
        ["bytes", whole(tensors.bytes[id])],
        ["kind", model.text(tensors.kind[id])],
        ["role", model.text(tensors.role[id])],
        ["IPU", tensors.ipu[id]],
        ["line", codeText(model.text(tensors.source[id]))],
        ["kept in", tensors.offloaded[id] ? "streaming memory" : null],
        ["split", tensors.split[id] > 1 ? `over ${tensors.split[id]} replicas` : null],
        ["label", model.text(tensors.label[id])],
      ]),
      model.placesOf(id).map((place) => placeDetail(model, place)),
      maker === null
        ? []
        : linkList("Made by", [
            [model.ops.name[maker], model.text(model.ops.type[maker]), () => choose("op", maker)],
          ]),
      linkList(
        "Used by",
        tensors.users[id].map((op) => [
          model.ops.name[op],
          model.text(model.ops.type[op]),
          () => choose("op", op),
        ]),
      ),
    ],
  };
}

/** Where a tensor is on an IPU, and from when to when. */
function placeDetail(model, place) {
  const { ipu, category, birth, death, tiles } = place;
  const used = tiles.reduce((sum, size) => sum + (size > 0 ? 1 : 0), 0);
  const most = tiles.reduce((a, b) => Math.max(a, b), 0);
  const life =
    birth === null
      ? "always live"
      : link(`live in steps ${birth} to ${death}`, () =>
          go({ view: "liveness", ipu: String(ipu), step: String(birth) }),
        );
  return make(
    "div",
    {},
    make("h3", {}, `On IPU ${ipu}: ${category}`),
    make("p", {}, life),
    tileStrip(tiles, (tile) => choose("tile", `${ipu}.${tile}`)),
    make(
      "p.soft",
      {},
      `${whole(used)} tiles, at most `,
      link(`${bytes(most)} on tile ${tiles.indexOf(most)}`, () =>
        choose("tile", `${ipu}.${tiles.indexOf(most)}`),
      ),
    ),
  );
}

/** What the panel shows of a tile. */
function tileDetail(model, { id: ipu, tile }) {
  const memory = model.memory[ipu];
  if (!memory || !(tile < memory.tiles)) return null;
  const peak = spreadAt(memory.peak, tile);
  const parts = memory.categories
    .map((each) => [each.name, spreadAt(each.tiles, tile)])
    .filter(([, size]) => size > 0);
  const step = shownStep(model, ipu);
  const here = model
    .liveAt(ipu, step)
    .map((each) => [each, each.on(tile)])
    .filter(([, size]) => size > 0);
  here.sort((a, b) => b[1] - a[1]);
  const move = (to, text, title) =>
    make(
      "button.button.icon",
      {
        type: "button",
        title,
        "aria-label": title,
        disabled: to < 0 || to >= memory.tiles,
        click: () => choose("tile", `${ipu}.${to}`),
      },
      text,
    );
  return {
    title: `Tile ${tile} of IPU ${ipu}`,
    path: [link("Memory", () => go({ view: "memory", ipu: String(ipu) }))],
    content: [
      make(
        "div.at",
        {},
        make(
          `span.pill.${peak > memory.capacity ? "bad" : "good"}`,
          {},
          `${bytes(peak)} of ${bytes(memory.capacity)} at its peak`,
        ),
        make(
          "span.tools",
          {},
          move(tile - 1, "‹", "tile before"),
          move(tile + 1, "›", "next tile"),
        ),
      ),
      tile >= memory.compute_tiles ? make("p.soft", {}, "An I/O tile.") : null,
      stackedBar(
        parts.sort((a, b) => b[1] - a[1]),
        bytes,
      ),
      make(
        "p.soft",
        {},
        "Live at ",
        link(make("span", {}, ...breakable(`step ${step}, ${stepName(model, ipu, step)}`)), () =>
          go({ view: "liveness", ipu: String(ipu), step: String(step) }),
        ),
      ),
      linkList(
        "On the tile then",
        here.map(([each, size]) => [
          `${each.name}`,
          bytes(size),
          each.tensor === null
            ? each.op === undefined
              ? null
              : () => choose("op", each.op)
            : () => choose("tensor", each.tensor),
        ]),
      ),
    ],
  };
}
