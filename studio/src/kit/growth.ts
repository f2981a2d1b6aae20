/** For tests: how many times longer the work takes with four times the size: 4 if it grows linearly, 16 with the square. */
export function growth(size: number, prepare: (size: number) => () => void): number {
  const fastest = (of: number) => {
    const times = Array.from({ length: 5 }, () => {
      const work = prepare(of);
      const from = performance.now();
      work();
      return performance.now() - from;
    });
    return Math.min(...times);
  };
  fastest(size); // compiles what is measured
  return fastest(4 * size) / fastest(size);
}
