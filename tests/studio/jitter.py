"""Makes a page run its timers, its messages and its answers late and in another order, as a busy machine does.

A test that fails with one seed has found a race, of the page or of its own. The same page draws the same delays from
the same seed; how long the server takes is not fixed.
"""

import os

SEED = os.environ.get("JITTER", "")
"""A number, or nothing for a page without delays: see `make jitter`."""

LATE = """(() => {
  let state = %s;
  const draw = () => {
    state = (state + 0x6D2B79F5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
  // Half of them are not late: what is late always keeps its order.
  const late = (most) => (draw() < 0.5 ? 0 : draw() * most);
  const { setTimeout, fetch } = window;
  window.setTimeout = (run, after = 0, ...given) => setTimeout(run, after + late(300), ...given);
  window.fetch = async (...given) => {
    if (given[1]?.keepalive) return fetch(...given); // it is sent when the page is closed, which ends all timers
    await new Promise((done) => setTimeout(done, late(300)));
    const answer = await fetch(...given);
    await new Promise((done) => setTimeout(done, late(600)));
    return answer;
  };
  // React renders and runs effects in messages to itself, of which there is one at a time.
  const { postMessage } = MessagePort.prototype;
  MessagePort.prototype.postMessage = function (...given) {
    const after = late(60);
    if (after) setTimeout(() => postMessage.apply(this, given), after);
    else postMessage.apply(this, given);
  };
})()"""


def script(page: int) -> str:
    """What the page of this number runs first: nothing without a seed."""
    return LATE % (int(SEED) * 1000 + page) if SEED else ""
