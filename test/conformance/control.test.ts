import { openLocalLeases } from '../../src/control/local/leases.ts';
import { openLocalState } from '../../src/control/local/state.ts';
import { tempDir } from '../support/temp-dir.ts';
import { controlSuite } from './control-suite.ts';

controlSuite('local', async () => {
  const dir = tempDir('control');
  const openState = () => openLocalState({ dir: `${dir.path}/state` });
  return {
    leases: openLocalLeases({ holder: 'this process', clock: () => 1_000 }),
    state: openState(),
    reopenState: async () => openState(),
    remove: async () => dir.remove(),
  };
});
