// The stretch of an axis that a plot shows: wheel, drag and keys change it.

class Zoom {
  /**
   * @param {number} size - the axis is from 0 to this.
   * @param {function(): void} changed - called when another stretch is shown.
   * @param {number} least - shortest stretch.
   */
  constructor(size, changed, least = 1) {
    this.changed = changed;
    this.least = least;
    this.resize(size);
  }

  /** Takes another axis, and shows all of it. */
  resize(size) {
    this.size = Math.max(size, this.least);
    this.from = 0;
    this.to = this.size;
  }

  /** Shows a stretch, as far as the axis has it. */
  show(from, to) {
    const length = Math.min(this.size, Math.max(this.least, to - from));
    this.from = Math.min(Math.max(0, from), this.size - length);
    this.to = this.from + length;
    this.changed();
  }

  /** Makes the stretch shorter by a factor, around a point of it from 0 to 1. */
  by(factor, at = 0.5) {
    const length = this.to - this.from;
    const point = this.from + at * length;
    this.show(point - at * length * factor, point + (1 - at) * length * factor);
  }

  /** Moves the stretch by a part of its length. */
  pan(part) {
    const length = this.to - this.from;
    this.show(this.from + part * length, this.from + part * length + length);
  }

  /** Moves the stretch so that it has a point, if it has not. */
  reveal(from, to = from) {
    if (from >= this.from && to <= this.to) return;
    const length = Math.max(this.to - this.from, to - from);
    const middle = (from + to) / 2;
    this.show(middle - length / 2, middle + length / 2);
  }

  /** Does what a key says; returns whether it says anything. */
  key(event) {
    const acts = {
      "+": () => this.by(0.6),
      "=": () => this.by(0.6),
      "-": () => this.by(1 / 0.6),
      0: () => this.show(0, this.size),
      "<": () => this.pan(-0.25),
      ">": () => this.pan(0.25),
      ",": () => this.pan(-0.25),
      ".": () => this.pan(0.25),
    };
    if (!(event.key in acts)) return false;
    acts[event.key]();
    return true;
  }

  /**
   * Listens to the wheel and to dragging.
   * @param {HTMLElement} element
   * @param {function(): [number, number]} plot - where the plot begins in it, and how wide it is.
   */
  listen(element, plot) {
    element.addEventListener(
      "wheel",
      (event) => {
        const [left, width] = plot();
        event.preventDefault();
        if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
          this.pan((event.deltaX || event.deltaY) / width);
          return;
        }
        const at = (event.offsetX - left) / width;
        this.by(
          Math.exp(Math.sign(event.deltaY) * Math.min(0.5, Math.abs(event.deltaY) / 300)),
          at,
        );
      },
      { passive: false },
    );
    element.addEventListener("pointerdown", (event) => this.drag(event, element, plot()[1]));
  }

  /** Moves the stretch with the pointer until it is released. */
  drag(event, element, width) {
    if (event.button) return;
    const { clientX } = event;
    const { from, to } = this;
    this.dragged = false;
    const move = (next) => {
      const by = ((clientX - next.clientX) / width) * (to - from);
      if (Math.abs(clientX - next.clientX) > 3) this.dragged = true;
      if (this.dragged) this.show(from + by, from + by + to - from);
    };
    const end = () => {
      removeEventListener("pointermove", move);
      removeEventListener("pointerup", end);
      removeEventListener("pointercancel", end);
    };
    addEventListener("pointermove", move);
    addEventListener("pointerup", end);
    addEventListener("pointercancel", end);
  }
}

/** Round numbers in a stretch, for the marks of an axis. */
function marks(from, to, most, base = 10) {
  const raw = Math.max((to - from) / most, Number.MIN_VALUE);
  const power = base === 10 ? 10 ** Math.floor(Math.log10(raw)) : 2 ** Math.floor(Math.log2(raw));
  const steps = base === 10 ? [1, 2, 5, 10] : [1, 2];
  const step = power * steps.find((each) => each * power >= raw * 0.999);
  const found = [];
  for (let at = Math.ceil(from / step) * step; at <= to + step * 1e-6; at += step) found.push(at);
  return found;
}

/** A canvas with as many points as the screen has; returns its context. */
function sized(canvas, width, height) {
  const scale = devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * scale)) canvas.width = Math.round(width * scale);
  if (canvas.height !== Math.round(height * scale)) canvas.height = Math.round(height * scale);
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = '11px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';
  return context;
}
