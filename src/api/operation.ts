/**
 * What one route of the API is, in a form that the OpenAPI document is made from, and what a part of
 * the API with routes of its own gives to the whole.
 */
import type { z } from 'zod';
import type { ApiApp } from './app.ts';

export type Method = 'GET' | 'POST' | 'PUT' | 'DELETE';

/** `none`: no token needed. `read`: any token, sees its own advertiser. `admin`: an admin token. */
export type OperationScope = 'none' | 'read' | 'admin';

export interface Content {
  /** Media type, e.g. `application/json`. */
  readonly type: string;
  readonly schema?: z.ZodType;
  readonly example?: unknown;
}

export interface Answer {
  readonly status: number;
  readonly description: string;
  readonly content?: readonly Content[];
}

export interface Operation {
  readonly method: Method;
  /** With parts of the path in braces: `/v1/ads/{ad_id}/clicks`. */
  readonly path: string;
  readonly tag: string;
  /** One line. */
  readonly summary: string;
  readonly description?: string;
  readonly scope: OperationScope;
  /** Its name in the audit log, for what an admin changes: `tokens.create`. */
  readonly action?: string;
  /** Parameters of the query string (or of the form body, for a POST that takes either). */
  readonly query?: z.ZodObject;
  readonly body?: readonly Content[];
  readonly answers: readonly Answer[];
}

/** A part of the API: its routes, and what they are. Every route has exactly one operation. */
export interface ApiFeature {
  readonly operations: readonly Operation[];
  /** Adds the routes. Tokens and scopes of `/v1/*` and `/v1/admin/*` have been checked before. */
  add(app: ApiApp): void;
}
