// A plot of values stacked on each other, with a place in it that can be moved.

const PLOT = { left: 68, right: 14, top: 12, bottom: 24 };

class StackPlot {
  /**
   * @param {Object} options
   * @param {string} options.label - what it shows.
   * @param {number} options.height
   * @param {function(number): string} options.format - of values.
   * @param {function(number): string} options.title - of a place, such as `tile 7`.
   * @param {function(number): void} options.pick - called with the place that is chosen.
   * @param {boolean} [options.follows] - whether keys choose at once, not only Enter.
   */
  constructor(options) {
    this.options = options;
    this.series = [];
    this.totals = new Float64Array(1);
    this.place = 0;
    this.canvas = make("canvas");
    this.element = make(
      "div.plot",
      {
        role: "slider",
        tabindex: 0,
        "aria-label": options.label,
        "aria-valuemin": 0,
        keydown: (event) => this.onKey(event),
        click: (event) => this.onClick(event),
        pointermove: (event) => this.onMove(event),
        pointerleave: hideHint,
        redraw: () => this.draw(),
      },
      this.canvas,
    );
    this.redraw = atNextFrame(() => this.draw());
    this.zoom = new Zoom(1, this.redraw, 4);
    this.zoom.listen(this.canvas, () => [PLOT.left, this.width()]);
    new ResizeObserver(this.redraw).observe(this.element);
    onTheme(() => this.draw());
  }

  /**
   * Shows values.
   * @param {Array<{name: string, values: Float64Array}>} series - from below.
   * @param {number|null} limit - a line, at what there may be at most.
   */
  fill(series, limit = null) {
    this.series = series;
    this.limit = limit;
    const size = series.length ? series[0].values.length : 0;
    this.totals = new Float64Array(size);
    for (const { values } of series) values.forEach((value, i) => (this.totals[i] += value));
    this.most =
      Math.max(
        limit || 0,
        this.totals.reduce((a, b) => Math.max(a, b), 0),
      ) || 1;
    this.zoom.resize(size);
    this.element.setAttribute("aria-valuemax", Math.max(0, size - 1));
    this.draw();
  }

  /** How wide the plot is. */
  width() {
    return Math.max(10, this.canvas.clientWidth - PLOT.left - PLOT.right);
  }

  /** Where a place is. */
  x(place) {
    return PLOT.left + ((place - this.zoom.from) / (this.zoom.to - this.zoom.from)) * this.width();
  }

  /** Where a value is. */
  y(value) {
    const bottom = this.options.height - PLOT.bottom;
    return bottom - ((bottom - PLOT.top) * value) / (this.most * 1.04);
  }

  /** Draws everything. */
  draw() {
    if (!this.canvas.clientWidth || !this.totals.length) return;
    const { height } = this.options;
    const context = sized(this.canvas, this.canvas.clientWidth, height);
    this.drawGrid(context);
    this.drawColumns(context);
    this.drawLimit(context);
    this.drawPlace(context);
  }

  /** Draws the marks of both axes. */
  drawGrid(context) {
    const right = PLOT.left + this.width();
    context.strokeStyle = themed("--hair");
    context.fillStyle = themed("--faint");
    context.textAlign = "right";
    for (const mark of marks(0, this.most, 4, 2)) {
      context.beginPath();
      context.moveTo(PLOT.left, this.y(mark));
      context.lineTo(right, this.y(mark));
      context.stroke();
      context.fillText(this.options.format(mark), PLOT.left - 7, this.y(mark) + 4);
    }
    context.textAlign = "center";
    for (const mark of marks(this.zoom.from, this.zoom.to - 1, 8)) {
      if (!Number.isInteger(mark)) continue;
      context.fillText(whole(mark), this.x(mark + 0.5), this.options.height - 8);
    }
  }

  /** A column of points shows the fullest of its places. */
  drawColumns(context) {
    const width = this.width();
    const columns = range(Math.ceil(width)).map((px) => this.fullest(px, width));
    const below = new Float64Array(columns.length);
    this.series.forEach(({ name, values }, index) => {
      context.fillStyle = themed(colorName(name, index));
      context.beginPath();
      for (let px = 0; px < columns.length;) {
        let end = px + 1;
        while (end < columns.length && columns[end] === columns[px]) end += 1;
        const value = values[columns[px]];
        if (value > 0) {
          const top = this.y(below[px] + value);
          context.rect(PLOT.left + px, top, end - px, this.y(below[px]) - top);
        }
        for (; px < end; px += 1) below[px] += value;
      }
      context.fill();
    });
  }

  /** The place that a column of points shows. */
  fullest(px, width) {
    const { from, to } = this.zoom;
    const first = Math.floor(from + (px / width) * (to - from));
    const end = Math.max(first + 1, Math.floor(from + ((px + 1) / width) * (to - from)));
    let found = Math.min(first, this.totals.length - 1);
    for (let i = first + 1; i < Math.min(end, this.totals.length); i += 1) {
      if (this.totals[i] > this.totals[found]) found = i;
    }
    return found;
  }

  /** Draws what a tile holds. */
  drawLimit(context) {
    if (!this.limit) return;
    context.strokeStyle = themed("--bad");
    context.setLineDash([6, 4]);
    context.beginPath();
    context.moveTo(PLOT.left, this.y(this.limit));
    context.lineTo(PLOT.left + this.width(), this.y(this.limit));
    context.stroke();
    context.setLineDash([]);
    context.textAlign = "right";
    const text = `${this.options.format(this.limit)} a tile holds`;
    const wide = context.measureText(text).width + 8;
    context.fillStyle = themed("--paper");
    context.fillRect(PLOT.left + this.width() - wide, this.y(this.limit) + 3, wide, 14);
    context.fillStyle = themed("--bad");
    context.fillText(text, PLOT.left + this.width() - 4, this.y(this.limit) + 13);
  }

  /** Draws the mark. */
  drawPlace(context) {
    const left = this.x(this.place);
    const wide = Math.max(1.5, this.x(this.place + 1) - left);
    if (left + wide < PLOT.left || left > PLOT.left + this.width()) return;
    context.strokeStyle = themed("--ink");
    context.strokeRect(left, PLOT.top - 4, wide, this.options.height - PLOT.bottom - PLOT.top + 4);
  }

  /** The place at the pointer; null beside the plot. */
  placeAt(event) {
    const at = (event.offsetX - PLOT.left) / this.width();
    if (at < 0 || at > 1) return null;
    return this.fullest(Math.floor(at * this.width()), this.width());
  }

  /** Shows what the pointer is at. */
  onMove(event) {
    const place = this.placeAt(event);
    if (place === null || place >= this.totals.length) return hideHint();
    const parts = this.series
      .map(({ name, values }, index) => [name, values[place], index])
      .filter(([, value]) => value)
      .sort((a, b) => b[1] - a[1])
      .slice(0, 9);
    const lines = parts.map(([name, value, index]) =>
      make("div", {}, swatch(name, index), `${name} ${this.options.format(value)}`),
    );
    showHint(
      event,
      make("b", {}, `${this.options.title(place)}: ${this.options.format(this.totals[place])}`),
      ...lines,
    );
  }

  /** Chooses the place that is clicked. */
  onClick(event) {
    const place = this.placeAt(event);
    if (place === null || this.zoom.dragged) return;
    this.moveTo(place);
    this.options.pick(place);
  }

  /** Moves the mark. */
  moveTo(place) {
    this.place = Math.max(0, Math.min(this.totals.length - 1, place));
    this.zoom.reveal(this.place, this.place + 1);
    const text = `${this.options.title(this.place)}: ${this.options.format(this.totals[this.place])}`;
    this.element.setAttribute("aria-valuenow", this.place);
    this.element.setAttribute("aria-valuetext", text);
    this.redraw();
  }

  /** Moves the mark, zooms and chooses by keys. */
  onKey(event) {
    const far = event.shiftKey ? 10 : 1;
    const steps = {
      ArrowRight: far,
      ArrowUp: far,
      ArrowLeft: -far,
      ArrowDown: -far,
      PageDown: 50,
      PageUp: -50,
      Home: -Infinity,
      End: Infinity,
    };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in steps) {
      this.moveTo(this.place + steps[event.key]);
      if (this.options.follows) this.options.pick(this.place);
    } else if (event.key === "Enter" || event.key === " ") this.options.pick(this.place);
    else if (!this.zoom.key(event)) return;
    event.preventDefault();
    event.stopPropagation();
  }
}

/** Bytes on the tiles of an IPU as a strip, each tile a line; a click chooses a tile. */
function tileStrip(tiles, open) {
  const most = tiles.reduce((a, b) => Math.max(a, b), 0) || 1;
  const canvas = make("canvas", {
    role: "img",
    "aria-label": `bytes on ${tiles.length} tiles, at most ${bytes(most)}`,
    click: (event) => open(Math.floor((event.offsetX / canvas.clientWidth) * tiles.length)),
  });
  const draw = () => {
    if (!canvas.clientWidth) return;
    const context = sized(canvas, canvas.clientWidth, 46);
    const wide = canvas.clientWidth / tiles.length;
    context.fillStyle = themed("--c0");
    tiles.forEach((value, tile) => {
      const high = (44 * value) / most;
      context.fillRect(tile * wide, 46 - high, Math.max(wide, 0.7), high);
    });
  };
  new ResizeObserver(draw).observe(canvas);
  return make("div.plot", {}, canvas);
}
