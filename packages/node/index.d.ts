/** Options of a gateway. */
export interface Options {
  /** Level of transactions that name no read concern. Default: `snapshot`. */
  isolation?: "read-committed" | "snapshot" | "serializable";
  /**
   * Name of the replica set that the gateway shows itself as. Default: it shows itself as a router.
   */
  replicaSet?: string;
  /** Further options of `mongotx serve`. */
  options?: string[];
  /** The longest time until the gateway listens, in milliseconds. Default: 300,000. */
  startLimitMs?: number;
}

/** A gateway that runs. It ends with this process, however that ends. */
export interface Gateway extends AsyncDisposable {
  /** The connection string of the gateway. */
  readonly uri: string;
  /** Ends the gateway, and the server that it has started. */
  stop(): Promise<void>;
}

/** Starts a gateway in front of the server of `uri`. */
export function gateway(uri: string, options?: Options): Promise<Gateway>;

/**
 * Starts a standalone server and a gateway in front of it, for tests. The server's data goes with
 * it.
 */
export function local(options?: Options): Promise<Gateway>;

/**
 * The path of the `mongotx` binary: the one that the variable MONGOTX_BINARY names, or the
 * package's own.
 */
export function binary(): string;

/** A gateway could not be started. The message has the end of its log. */
export class MongoTxError extends Error {}
