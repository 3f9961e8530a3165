/** Gauges of the ledger that are read when they are asked for. */
import { Gauge, type Registry } from 'prom-client';

export type DefineGauge = (name: string, help: string, value: () => number) => void;

/** Defines gauges in `registry`, named behind the product. */
export function gaugesIn(registry: Registry): DefineGauge {
  const registers = [registry];
  return (name, help, value) => {
    new Gauge({
      name: `clickledger_${name}`,
      help,
      registers,
      collect() {
        this.set(value());
      },
    });
  };
}
