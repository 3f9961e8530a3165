/** The product's version, from the package file: one place to change it. */
import manifest from '../package.json' with { type: 'json' };

export const VERSION: string = manifest.version;
