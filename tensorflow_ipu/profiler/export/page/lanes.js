// Spans in lanes over time, of each IPU: nested layers above what it works on.

const LANE = { left: 68, right: 14, axis: 26, gap: 2, between: 14, least: 18, most: 30, point: 0.6 };

/**
 * @typedef {Object} Span
 * @property {number} start
 * @property {number} length
 * @property {string} name
 * @property {string} color - name of a CSS variable.
 * @property {Array<[number, string]>} [parts] - lengths and colors of what it is made of.
 * @property {boolean} [pale] - whether it is drawn pale, as a frame for others.
 * @property {Object} data - handed to `hint` and `open`.
 */

class Lanes {
  /**
   * @param {Object} options
   * @param {string} options.label - what is shown.
   * @param {function(number): string} options.format - of the time.
   * @param {function(Span): Array<Node|string>} options.hint - lines about a span.
   * @param {function(Span): void} options.open - called with the span that is chosen.
   */
  constructor(options) {
    this.options = options;
    this.lanes = [];
    this.at = null;
    this.canvas = make("canvas");
    this.said = make("div", { "aria-live": "polite", class: "soft said" }, " ");
    this.element = make(
      "div.plot.grow",
      {
        role: "application",
        tabindex: 0,
        "aria-label": options.label,
        keydown: (event) => this.onKey(event),
        redraw: () => this.draw(),
      },
      this.canvas,
    );
    this.canvas.addEventListener("pointermove", (event) => this.onMove(event));
    this.canvas.addEventListener("pointerleave", hideHint);
    this.canvas.addEventListener("click", (event) => this.onClick(event));
    this.redraw = atNextFrame(() => this.draw());
    this.zoom = new Zoom(1, this.redraw, 1e-3);
    this.zoom.listen(this.canvas, () => [LANE.left, this.width()]);
    new ResizeObserver(this.redraw).observe(this.element);
    onTheme(() => this.draw());
  }

  /**
   * Shows groups of lanes.
   * @param {Array<{name: string, lanes: Span[][]}>} groups - an IPU each; spans by their start.
   * @param {number} total - length of the axis.
   */
  fill(groups, total) {
    this.lanes = [];
    const count = groups.reduce((sum, { lanes }) => sum + lanes.length, 0);
    this.high = Math.max(LANE.least, Math.min(LANE.most, Math.floor(360 / (count || 1))));
    let top = LANE.axis + 4;
    for (const { name, lanes } of groups) {
      lanes.forEach((spans, index) => {
        this.lanes.push({ spans, top, name: index ? "" : name });
        top += this.high + LANE.gap;
      });
      top += LANE.between;
    }
    this.height = top;
    this.at = null;
    this.zoom.resize(total);
    this.zoom.least = total / 1e6 || 1;
    this.draw();
  }

  /** How wide the lanes are. */
  width() {
    return Math.max(10, this.canvas.clientWidth - LANE.left - LANE.right);
  }

  /** Where a time is. */
  x(time) {
    return LANE.left + ((time - this.zoom.from) / (this.zoom.to - this.zoom.from)) * this.width();
  }

  /** Draws everything. */
  draw() {
    if (!this.canvas.clientWidth || !this.lanes.length) return;
    const context = sized(this.canvas, this.canvas.clientWidth, this.height);
    this.colors = new Map();
    this.drawAxis(context);
    context.save();
    context.beginPath();
    context.rect(LANE.left, 0, this.width(), this.height);
    context.clip();
    this.lanes.forEach((lane) => this.drawLane(context, lane));
    this.drawCurrent(context);
    context.restore();
    context.fillStyle = themed("--soft");
    context.textAlign = "left";
    for (const lane of this.lanes) context.fillText(lane.name, 12, lane.top + this.high / 2 + 4);
  }

  /** Draws the marks of the time. */
  drawAxis(context) {
    context.fillStyle = themed("--faint");
    context.strokeStyle = themed("--hair");
    context.textAlign = "center";
    const fine = this.zoom.to - this.zoom.from < this.zoom.to / 10;
    for (const mark of marks(this.zoom.from, this.zoom.to, 8)) {
      context.beginPath();
      context.moveTo(this.x(mark), LANE.axis - 6);
      context.lineTo(this.x(mark), this.height);
      context.stroke();
      context.fillText(fine ? whole(mark) : this.options.format(mark), this.x(mark), 14);
    }
  }

  /** The color of a CSS variable, looked up once for each drawing. */
  color(name) {
    if (!this.colors.has(name)) this.colors.set(name, themed(name));
    return this.colors.get(name);
  }

  /** Spans narrower than a point join those that follow without a gap; the longest is shown. */
  drawLane(context, { spans, top }) {
    let joined = null;
    const draw = () => {
      if (!joined) return;
      const wide = Math.max(LANE.point, joined.right - joined.left);
      this.drawSpan(context, joined.span, joined.left, wide, top);
    };
    for (let i = this.firstAfter(spans, this.zoom.from); i < spans.length; i += 1) {
      const span = spans[i];
      if (span.start > this.zoom.to) break;
      const left = this.x(span.start);
      const right = this.x(span.start + span.length);
      const inPoint = joined && right - joined.left < LANE.point;
      const touches = joined && left - joined.right < 1e-6 && right - left < LANE.point;
      if (inPoint || (touches && joined.right - joined.left < LANE.point)) {
        joined.right = Math.max(joined.right, right);
        if (span.length > joined.span.length) joined.span = span;
        continue;
      }
      draw();
      joined = { span, left, right };
    }
    draw();
  }

  /** Draws a span, or those that joined. */
  drawSpan(context, span, left, wide, top) {
    context.globalAlpha = span.pale ? 0.26 : 1;
    if (span.parts && wide > 6) {
      let at = left;
      for (const [length, color] of span.parts) {
        const part = (wide * length) / (span.length || 1);
        context.fillStyle = this.color(color);
        context.fillRect(at, top, part, this.high);
        at += part;
      }
    } else {
      context.fillStyle = this.color(span.color);
      context.fillRect(left, top, wide > 5 ? wide - 0.7 : wide + 0.5, this.high);
    }
    context.globalAlpha = 1;
    if (wide > (span.short ? 13 : 34)) this.drawText(context, span, left, wide, top);
  }

  /** Writes as much of a span's name into it as there is room for. */
  drawText(context, span, left, wide, top) {
    const from = Math.max(left, LANE.left);
    const edge = span.short ? 4 : 10;
    const room = Math.min(left + wide, LANE.left + this.width()) - from - edge;
    if (room < (span.short ? 8 : 24)) return;
    const text = span.short ? shorter(context, span, room) : fitting(context, span.name, room);
    context.fillStyle = span.pale ? themed("--ink") : "#fff";
    context.textAlign = "left";
    if (!span.pale) {
      context.shadowColor = "rgb(0 0 0 / 60%)";
      context.shadowBlur = 3;
    }
    context.fillText(text, from + edge / 2, top + this.high / 2 + 4);
    context.shadowBlur = 0;
  }

  /** Marks the current span. */
  drawCurrent(context) {
    const span = this.currentSpan();
    if (!span) return;
    context.strokeStyle = themed("--ink");
    context.lineWidth = 2;
    const left = this.x(span.start);
    const wide = Math.max(2, this.x(span.start + span.length) - left);
    context.strokeRect(left, this.lanes[this.at.lane].top, wide, this.high);
    context.lineWidth = 1;
  }

  /** The first span that ends after a time. */
  firstAfter(spans, time) {
    let low = 0;
    let high = spans.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (spans[middle].start + spans[middle].length < time) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** The span that keys are at. */
  currentSpan() {
    return this.at ? this.lanes[this.at.lane].spans[this.at.index] : null;
  }

  /** Lane and position of the span at the pointer. */
  spanAt(event) {
    const index = this.lanes.findIndex(
      ({ top }) => event.offsetY >= top && event.offsetY < top + this.high + LANE.gap,
    );
    if (index < 0 || event.offsetX < LANE.left) return null;
    const { from, to } = this.zoom;
    const point = (to - from) / this.width();
    const time = from + (event.offsetX - LANE.left) * point;
    const { spans } = this.lanes[index];
    const found = this.firstAfter(spans, time - point);
    const span = spans[found];
    return span && span.start <= time + point ? { lane: index, index: found } : null;
  }

  /** Shows what the pointer is at. */
  onMove(event) {
    const found = this.spanAt(event);
    if (!found || event.buttons) return hideHint();
    showHint(event, ...this.options.hint(this.lanes[found.lane].spans[found.index]));
  }

  /** Opens the span that is clicked. */
  onClick(event) {
    const found = this.spanAt(event);
    if (!found || this.zoom.dragged) return;
    this.at = found;
    this.say();
    this.redraw();
    this.options.open(this.currentSpan());
  }

  /** Moves, zooms and opens by keys. */
  onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const moves = {
      ArrowRight: () => this.step(1),
      ArrowLeft: () => this.step(-1),
      ArrowDown: () => this.changeLane(1),
      ArrowUp: () => this.changeLane(-1),
      Home: () => this.step(-Infinity),
      End: () => this.step(Infinity),
      Enter: () => this.currentSpan() && this.options.open(this.currentSpan()),
      f: () => this.fit(),
    };
    if (event.key in moves) moves[event.key]();
    else if (!this.zoom.key(event)) return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** Shows the current span, as wide as the plot. */
  fit() {
    const span = this.currentSpan();
    if (span) this.zoom.show(span.start, span.start + span.length);
  }

  /** Goes to another span of the lane. */
  step(by) {
    const lane = this.at ? this.at.lane : 0;
    const last = this.lanes[lane].spans.length - 1;
    const index = this.at
      ? this.at.index + by
      : this.firstAfter(this.lanes[lane].spans, this.zoom.from);
    this.moveTo(lane, Math.max(0, Math.min(last, index)));
  }

  /** Goes to the span above or below. */
  changeLane(by) {
    if (!this.at) return this.step(0);
    const span = this.currentSpan();
    let lane = this.at.lane + by;
    while (this.lanes[lane] && !this.lanes[lane].spans.length) lane += by;
    if (!this.lanes[lane]) return;
    const { spans } = this.lanes[lane];
    const middle = span.start + span.length / 2;
    this.moveTo(lane, Math.min(spans.length - 1, this.firstAfter(spans, middle)));
  }

  /** Makes a span the current one, and brings it into sight. */
  moveTo(lane, index) {
    if (!this.lanes[lane].spans.length) return;
    this.at = { lane, index };
    const span = this.currentSpan();
    this.zoom.reveal(
      span.start,
      Math.min(span.start + span.length, span.start + this.zoom.to - this.zoom.from),
    );
    this.say();
    this.redraw();
  }

  /** Says what the current span is, for all readers. */
  say() {
    const lines = this.options.hint(this.currentSpan());
    fill(this.said, lines.map((line) => (line.textContent || line).trim()).join(" · "));
  }
}

/** The name of a span, its short one, or nothing. */
function shorter(context, { name, short }, room) {
  const found = [name, short].find((text) => context.measureText(text).width <= room);
  return found || "";
}

/** As much of a name as there is room for: all of it, its last part, or the beginning of that. */
function fitting(context, name, room) {
  const wide = (text) => context.measureText(text).width;
  if (wide(name) <= room) return name;
  const last = name.slice(name.lastIndexOf("/") + 1);
  if (wide(last) <= room) return last;
  const most = Math.floor((last.length * room) / wide(last)) - 1;
  return most > 1 ? `${last.slice(0, most)}…` : "";
}
