/** Maps times to a line from 0 to 1. Idle stretches can be cut to a short piece each. */

export interface Span {
  from: number;
  to: number;
}

export interface Cut extends Span {
  /** Where the cut is drawn. */
  at: number;
}

export interface Scale {
  at: (time: number) => number;
  cuts: Cut[];
}

const LONG = 0.15;
const PIECE = 0.03;

/** `busy` are the stretches with activity. An idle one is cut if it is longer than 15 % of the activity in all. */
export function timescale(busy: Span[], whole: Span, collapse: boolean): Scale {
  const total = Math.max(1, whole.to - whole.from);
  const merged = merge(busy, whole);
  const active = merged.reduce((sum, span) => sum + span.to - span.from, 0);
  const idle = gaps(merged, whole).filter((gap) => collapse && gap.to - gap.from > Math.max(1_000, active * LONG));
  if (!idle.length) return { at: (time) => clamp((time - whole.from) / total), cuts: [] };
  const kept = Math.max(1, total - idle.reduce((sum, gap) => sum + gap.to - gap.from, 0));
  const piece = Math.min(PIECE, 0.4 / idle.length);
  const rest = 1 - piece * idle.length;
  const at = (time: number) => {
    let seen = 0;
    let place = 0;
    let from = whole.from;
    for (const gap of idle) {
      if (time <= gap.from) break;
      seen += gap.from - from;
      place = (seen / kept) * rest + piece * idle.indexOf(gap);
      if (time < gap.to) return clamp(place + (piece * (time - gap.from)) / (gap.to - gap.from));
      from = gap.to;
    }
    const passed = idle.filter((gap) => gap.to <= time).length;
    return clamp(((seen + Math.max(0, Math.min(time, whole.to) - from)) / kept) * rest + piece * passed);
  };
  return { at, cuts: idle.map((gap) => ({ ...gap, at: (at(gap.from) + at(gap.to)) / 2 })) };
}

function merge(spans: Span[], whole: Span): Span[] {
  const sorted = spans
    .map((span) => ({ from: Math.max(span.from, whole.from), to: Math.min(span.to, whole.to) }))
    .filter((span) => span.to >= span.from)
    .sort((a, b) => a.from - b.from);
  const found: Span[] = [];
  for (const span of sorted) {
    const last = found.at(-1);
    if (last && span.from <= last.to) last.to = Math.max(last.to, span.to);
    else found.push({ ...span });
  }
  return found;
}

function gaps(busy: Span[], whole: Span): Span[] {
  const found: Span[] = [];
  let from = whole.from;
  for (const span of busy) {
    if (span.from > from) found.push({ from, to: span.from });
    from = Math.max(from, span.to);
  }
  if (whole.to > from) found.push({ from, to: whole.to });
  return found;
}

const clamp = (value: number) => Math.min(1, Math.max(0, value));
