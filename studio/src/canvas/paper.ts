import { getNodesBounds, type Rect, useReactFlow, useStoreApi } from "@xyflow/react";
import { type RefObject, useEffect } from "react";

/** So much is shown around the nodes, for arrows and frames. */
const MARGIN = 12;

/**
 * Tells the style sheet what is printed of the graph: all of it, or what is in sight if the nodes elsewhere are not in the
 * document. How wide the paper is, only the style sheet knows.
 */
export function usePaper(box: RefObject<HTMLElement | null>, isWhole: boolean) {
  const flow = useReactFlow();
  const store = useStoreApi();
  useEffect(() => {
    const tell = () => {
      const { style, dataset } = box.current!;
      const { width, height } = store.getState();
      const { x, y, zoom } = flow.getViewport();
      const part: Rect = isWhole ? getNodesBounds(flow.getNodes()) : { x: -x / zoom, y: -y / zoom, width: width / zoom, height: height / zoom };
      style.setProperty("--from-x", `${MARGIN - part.x}px`);
      style.setProperty("--from-y", `${MARGIN - part.y}px`);
      style.setProperty("--part-width", `${part.width + 2 * MARGIN}px`);
      style.setProperty("--part-height", `${part.height + 2 * MARGIN}px`);
      dataset.paper = "";
    };
    addEventListener("beforeprint", tell);
    return () => removeEventListener("beforeprint", tell);
  }, [flow, store, box, isWhole]);
}
