// What a report says, as the page asks for it. Tables are columns; a row is a number.

/** @returns {number[]} the numbers 0 to n - 1. */
function range(n) {
  return Array.from({ length: n }, (_, index) => index);
}

/** Spreads a list of values and counts. */
function spread(pairs, size) {
  const values = new Float64Array(size);
  let at = 0;
  for (let i = 0; i < pairs.length; i += 2) {
    values.fill(pairs[i], at, at + pairs[i + 1]);
    at += pairs[i + 1];
  }
  return values;
}

/** One value of such a list. */
function spreadAt(pairs, index) {
  let at = 0;
  for (let i = 0; i < pairs.length; i += 2) {
    at += pairs[i + 1];
    if (index < at) return pairs[i];
  }
  return 0;
}

/** Bytes on a tile of something that is spread over tiles from tile 0 in blocks. */
function blocksOnTile(size, tile, memory) {
  const tiles = memory.compute_tiles;
  if (tile >= tiles) return 0;
  const blocks = Math.ceil(size / memory.block);
  const here = Math.floor(blocks / tiles) + (tile < blocks % tiles ? 1 : 0);
  const short = tile === Math.min(blocks, tiles) - 1 ? blocks * memory.block - size : 0;
  return here * memory.block - short;
}

class Model {
  /** @param {Object} data - of a report. */
  constructor(data) {
    Object.assign(this, data);
    this.layerCount = this.layers.name.length;
    this.opCount = this.ops.name.length;
    this.rowCount = this.operations.name.length;
    this.tensorCount = this.tensors.name.length;
    this.rowsOfOp = grouped(this.operations.op);
    this.opsOfLayer = grouped(this.ops.layer);
    this.rowsOfLayer = grouped(this.operations.layer);
    this.childrenOfLayer = grouped(this.layers.parent);
    this.treeParents = parentsOf(this.program_tree);
    this.childrenOfNode = grouped(this.treeParents);
    this.spreads = new Map();
  }

  /** A text by its position. */
  text(position) {
    return position === null || position === undefined ? "" : this.texts[position];
  }

  /** Rows of the operations table that an op is in; of a map all of its ops are in one. */
  rowsOf(op) {
    const row = this.ops.row[op];
    return this.rowsOfOp.get(op) || (row === null || row === undefined ? [] : [row]);
  }

  /** Other ops that are computed with that of a row, as one map. */
  fusedWith(row) {
    const { fused } = this.operations;
    return (fused && fused[row]) || [];
  }

  /** A layer and those around it, the outermost first; without the program. */
  trail(layer) {
    const found = [];
    for (let at = layer; at; at = this.layers.parent[at]) found.unshift(at);
    return found;
  }

  /** The whole name of a layer. */
  layerName(layer) {
    return layer === null || layer === undefined
      ? ""
      : this.layers.path[layer] || this.program.name;
  }

  /** All rows of the operations table in a layer and the layers in it. */
  rowsIn(layer) {
    const end = this.layers.end[layer];
    return range(end - layer).flatMap((offset) => this.rowsOfLayer.get(layer + offset) || []);
  }

  /** Bytes on each tile, of one of the mappings of an IPU. */
  mapped(ipu, mapping) {
    const key = `${ipu}.${mapping}`;
    if (!this.spreads.has(key)) {
      const memory = this.memory[ipu];
      this.spreads.set(key, spread(memory.mappings[mapping], memory.tiles));
    }
    return this.spreads.get(key);
  }

  /** The step that views begin with: where most is live. */
  peakStep(ipu) {
    return this.memory[ipu].peak_step || 0;
  }

  /** The bytes on each tile, of everything that is there during the whole program. */
  always(ipu) {
    const memory = this.memory[ipu];
    const total = new Float64Array(memory.tiles);
    for (const category of memory.categories) {
      if (!category.always_live) continue;
      spread(category.tiles, memory.tiles).forEach((value, tile) => (total[tile] += value));
    }
    return total;
  }

  /**
   * What is in the memory of an IPU at a step.
   * @returns {Array<{name, tensor, category, bytes, worst, birth, death, source, on}>} `on` says how
   *   many bytes are on a tile; `birth` is null of what is always there.
   */
  liveAt(ipu, step) {
    return [...this.residentsOf(ipu), ...this.stretchesAt(ipu, step)];
  }

  /** What is always in the memory of an IPU. */
  residentsOf(ipu) {
    const memory = this.memory[ipu];
    const { tensor, name, category, bytes: sizes, mapping, source } = memory.residents;
    return range(name.length).map((i) => ({
      key: `r${i}`,
      name: name[i],
      tensor: tensor[i],
      category: this.text(category[i]),
      bytes: sizes[i],
      birth: null,
      death: null,
      source: this.text(source[i]),
      worst: spreadAt(memory.mappings[mapping[i]], memory.worst_tile),
      on: (tile) => this.mapped(ipu, mapping[i])[tile],
    }));
  }

  /** What is there at a step, but not always. */
  stretchesAt(ipu, step) {
    const memory = this.memory[ipu];
    const { tensor, category, bytes: sizes, worst, birth, death } = memory.stretches;
    const live = range(tensor.length).filter((i) => birth[i] <= step && step <= death[i]);
    const found = live.map((i) => ({
      key: `s${i}`,
      name: this.tensors.name[tensor[i]] || "",
      tensor: tensor[i],
      category: this.text(category[i]),
      bytes: sizes[i],
      worst: worst[i],
      birth: birth[i],
      death: death[i],
      source: this.text(this.tensors.source[tensor[i]]),
      on: (tile) => blocksOnTile(sizes[i], tile, memory),
    }));
    const temporary = memory.temporaries[step];
    if (temporary) found.push(this.temporaryAt(memory, step, temporary));
    return found;
  }

  /** The temporary memory of the op of a step. */
  temporaryAt(memory, step, each) {
    const op = memory.steps.op[step];
    const tiles = memory.temporary_tiles[step];
    return {
      key: "temporary",
      name: `temporary of ${this.ops.name[op]}`,
      tensor: null,
      category: "temporaries",
      bytes: each * tiles,
      worst: each,
      birth: step,
      death: step,
      source: this.text(this.ops.source[op]),
      op,
      on: (tile) => (tile < tiles ? each : 0),
    };
  }

  /** Where a tensor is: for each IPU, bytes on each tile, and when. */
  placesOf(tensor) {
    const places = [];
    this.memory.forEach((memory, ipu) => {
      const { residents, stretches } = memory;
      residents.tensor.forEach((each, i) => {
        if (each === tensor) {
          places.push({
            ipu,
            category: this.text(residents.category[i]),
            birth: null,
            death: null,
            bytes: residents.bytes[i],
            tiles: this.mapped(ipu, residents.mapping[i]),
          });
        }
      });
      stretches.tensor.forEach((each, i) => {
        if (each === tensor) {
          places.push({
            ipu,
            category: this.text(stretches.category[i]),
            birth: stretches.birth[i],
            death: stretches.death[i],
            bytes: stretches.bytes[i],
            tiles: this.tilesOf(stretches.bytes[i], memory),
          });
        }
      });
    });
    return places;
  }

  /** Bytes on each tile of something that is spread in blocks. */
  tilesOf(size, memory) {
    return Float64Array.from(range(memory.tiles), (tile) => blocksOnTile(size, tile, memory));
  }

  /** Inputs or outputs of an op: tensor and type of each. */
  operands(op, side) {
    const list = this.ops[side][op];
    return range(list.length / 2).map((i) => ({
      tensor: list[2 * i],
      type: this.text(list[2 * i + 1]),
    }));
  }
}

/** The rows of each value of a column. */
function grouped(column) {
  const found = new Map();
  column.forEach((value, row) => {
    if (value === null || value === undefined) return;
    if (found.has(value)) found.get(value).push(row);
    else found.set(value, [row]);
  });
  return found;
}

/** The parent of each row of a tree in pre-order that says where its descendants end. */
function parentsOf({ end }) {
  const parents = [];
  const open = [];
  end.forEach((last, row) => {
    while (open.length && end[open[open.length - 1]] <= row) open.pop();
    parents.push(open.length ? open[open.length - 1] : null);
    open.push(row);
  });
  return parents;
}
