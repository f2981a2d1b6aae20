/** What a screen reader names when it gets the focus. */
const NAMED = "fieldset, dialog, article, [aria-label], [aria-labelledby]";

const isShown = (element: Element) => element.isConnected && element.getClientRects().length > 0;

const isDisabled = (element: Element) => element.matches(":disabled");

/** The element of the document with the focus, in shadow roots too; null if there is none. */
function focused(): Element | null {
  let found = document.activeElement;
  while (found?.shadowRoot?.activeElement) found = found.shadowRoot.activeElement;
  return found === document.body || found === document.documentElement ? null : found;
}

/**
 * Remembers where the focus is. Whether it can be moved is known later, as in the next frame, which a busy browser draws
 * late: not when the user has gone to another control, and the one of before is still there.
 */
export function focusOfNow(): () => boolean {
  const before = focused();
  return () => {
    const now = focused();
    return now === null || now === before || (before !== null && !isShown(before));
  };
}

/** Focuses an element that is no control, until the focus leaves it. */
function focusOn(element: HTMLElement) {
  if (!element.hasAttribute("tabindex")) {
    element.tabIndex = -1;
    element.addEventListener("blur", () => element.removeAttribute("tabindex"), { once: true });
  }
  element.focus({ preventScroll: true });
}

/**
 * Keeps the focus when the control that has it goes away, as a button does that is done: the browser would leave it to
 * the body. The nearest named part of the page around it gets it, else the heading of the page; a control that is only
 * disabled for a while gets it back.
 */
export function keepFocus(root: ShadowRoot): void {
  let last: { control: HTMLElement; around: HTMLElement[] } | null = null;
  const forget = () => {
    last = null;
    watch.disconnect();
  };
  const restore = () => {
    if (!last) return;
    const now = focused();
    if (now && now !== last.control) return forget();
    const { control, around } = last;
    if (isShown(control)) return isDisabled(control) ? undefined : control.focus();
    const next = around.find((one) => isShown(one) && one.matches(NAMED)) ?? root.querySelector<HTMLElement>("h1");
    if (!next) return; // that of a page which is still loaded comes later
    forget();
    focusOn(next);
  };
  // After the effects of the page, which know better where the focus belongs.
  const check = () => void (last && (!last.control.isConnected || focused() === null) && setTimeout(restore));
  const watch = new MutationObserver(check);
  root.addEventListener("focusin", (event) => {
    const control = event.target as HTMLElement;
    const around: HTMLElement[] = [];
    for (let one = control.parentElement; one; one = one.parentElement) around.push(one);
    last = { control, around };
    watch.observe(root, { childList: true, subtree: true, attributes: true, attributeFilter: ["disabled", "hidden"] });
  });
  root.addEventListener("focusout", (event) => {
    // The user went elsewhere, unless the control is on its way out or has the focus again, as after a dialog.
    const control = event.target as HTMLElement;
    const check = () => last?.control === control && focused() !== control && isShown(control) && !isDisabled(control) && forget();
    if (last?.control === control) setTimeout(check);
  });
  root.addEventListener("pointerdown", forget);
}
