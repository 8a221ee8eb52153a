//! MongoDB's error codes: the numbers that the gateway answers by itself, and the names of those
//! that it may pass on.

macro_rules! codes {
    ($($constant:ident = $number:literal $name:ident;)*) => {
        $(#[doc = concat!(stringify!($number), " ", stringify!($name), ".")]
        pub(crate) const $constant: i32 = $number;)*

        fn own(code: i32) -> Option<&'static str> {
            match code {
                $($number => Some(stringify!($name)),)*
                _ => None,
            }
        }
    };
}

codes! {
    INTERNAL_ERROR = 1 InternalError;
    BAD_VALUE = 2 BadValue;
    NO_SUCH_KEY = 4 NoSuchKey;
    FAILED_TO_PARSE = 9 FailedToParse;
    UNAUTHORIZED = 13 Unauthorized;
    TYPE_MISMATCH = 14 TypeMismatch;
    PROTOCOL_ERROR = 17 ProtocolError;
    AUTHENTICATION_FAILED = 18 AuthenticationFailed;
    ILLEGAL_OPERATION = 20 IllegalOperation;
    INVALID_LENGTH = 16 InvalidLength;
    NAMESPACE_NOT_FOUND = 26 NamespaceNotFound;
    CURSOR_NOT_FOUND = 43 CursorNotFound;
    NO_MATCHING_DOCUMENT = 47 NoMatchingDocument;
    MAX_TIME_EXPIRED = 50 MaxTimeMSExpired;
    COMMAND_NOT_FOUND = 59 CommandNotFound;
    WRITE_CONCERN_FAILED = 64 WriteConcernFailed;
    INVALID_OPTIONS = 72 InvalidOptions;
    INVALID_NAMESPACE = 73 InvalidNamespace;
    UNKNOWN_WRITE_CONCERN = 79 UnknownReplWriteConcern;
    NETWORK_TIMEOUT = 89 NetworkTimeout;
    UNSATISFIABLE_WRITE_CONCERN = 100 UnsatisfiableWriteConcern;
    WRITE_CONFLICT = 112 WriteConflict;
    COMMAND_NOT_SUPPORTED = 115 CommandNotSupported;
    CONFLICTING_OPERATION_IN_PROGRESS = 117 ConflictingOperationInProgress;
    COMMAND_FAILED = 125 CommandFailed;
    EXCEEDED_MEMORY_LIMIT = 146 ExceededMemoryLimit;
    NOT_ON_A_VIEW = 166 CommandNotSupportedOnView;
    INCOMPLETE_TRANSACTION_HISTORY = 217 IncompleteTransactionHistory;
    TRANSACTION_TOO_OLD = 225 TransactionTooOld;
    CURSOR_KILLED = 237 CursorKilled;
    SNAPSHOT_TOO_OLD = 239 SnapshotTooOld;
    NO_SUCH_TRANSACTION = 251 NoSuchTransaction;
    TRANSACTION_COMMITTED = 256 TransactionCommitted;
    TRANSACTION_TOO_LARGE = 257 TransactionTooLarge;
    TOO_MANY_SESSIONS = 261 TooManyLogicalSessions;
    INVALID_RESUME_TOKEN = 260 InvalidResumeToken;
    EXCEEDED_TIME_LIMIT = 262 ExceededTimeLimit;
    NOT_IN_TRANSACTION = 263 OperationNotSupportedInTransaction;
    CLIENT_DISCONNECT = 279 ClientDisconnect;
    CHANGE_STREAM_FATAL = 280 ChangeStreamFatalError;
    CHANGE_STREAM_HISTORY_LOST = 286 ChangeStreamHistoryLost;
    API_VERSION_ERROR = 322 APIVersionError;
    API_STRICT_ERROR = 323 APIStrictError;
    MECHANISM_UNAVAILABLE = 334 MechanismUnavailable;
    API_MISMATCH = 347 APIMismatchError;
    EXPECTED_OBJECT = 10065 Location10065;
    INVALID_PAYLOAD = 10270 Location10270;
    OBJECT_TOO_LARGE = 10334 BSONObjectTooLarge;
    INTERRUPTED = 11601 Interrupted;
    NOT_ONE_FIELD = 40323 Location40323;
    MISSING_FIELD = 40414 Location40414;
    UNKNOWN_FIELD = 40415 Location40415;
    NOT_FIRST_STAGE = 40602 Location40602;
    CURSOR_WITHOUT_SESSION = 50736 Location50736;
    CURSOR_NEEDS_SESSION = 50737 Location50737;
    CURSOR_OF_OTHER_SESSION = 50738 Location50738;
    CURSOR_WITHOUT_TRANSACTION = 50739 Location50739;
    CURSOR_NEEDS_TRANSACTION = 50740 Location50740;
    CURSOR_OF_OTHER_TRANSACTION = 50741 Location50741;
    NOT_RETRYABLE = 50768 NotARetryableWriteCommand;
    OUT_OF_RANGE = 51024 Location51024;
}

/// The names of codes that the backing server may answer.
const NAMES: &[(i32, &str)] = &[
    (6, "HostUnreachable"),
    (7, "HostNotFound"),
    (8, "UnknownError"),
    (10, "CannotBackfillArray"),
    (11, "UserNotFound"),
    (15, "Overflow"),
    (22, "InvalidBSON"),
    (24, "LockTimeout"),
    (27, "IndexNotFound"),
    (28, "PathNotViable"),
    (40, "ConflictingUpdateOperators"),
    (48, "NamespaceExists"),
    (52, "DollarPrefixedFieldName"),
    (53, "InvalidIdField"),
    (54, "NotSingleValueField"),
    (55, "InvalidDBRef"),
    (56, "EmptyFieldName"),
    (57, "DottedFieldName"),
    (61, "ShardKeyNotFound"),
    (66, "ImmutableField"),
    (67, "CannotCreateIndex"),
    (68, "IndexAlreadyExists"),
    (85, "IndexOptionsConflict"),
    (86, "IndexKeySpecsConflict"),
    (91, "ShutdownInProgress"),
    (96, "OperationFailed"),
    (121, "DocumentValidationFailure"),
    (139, "JSInterpreterFailure"),
    (167, "OptionNotSupportedOnView"),
    (168, "InvalidPipelineOperator"),
    (171, "CannotIndexParallelArrays"),
    (181, "AmbiguousIndexKeyPattern"),
    (189, "PrimarySteppedDown"),
    (197, "InvalidIndexSpecificationOption"),
    (224, "QueryFeatureNotAllowed"),
    (238, "NotImplemented"),
    (290, "TransactionExceededLifetimeLimitSeconds"),
    (291, "NoQueryExecutionPlans"),
    (292, "QueryExceededMemoryLimitNoDiskUseAllowed"),
    (9001, "SocketException"),
    (10058, "LegacyNotPrimary"),
    (10107, "NotWritablePrimary"),
    (10334, "BSONObjectTooLarge"),
    (11000, "DuplicateKey"),
    (11600, "InterruptedAtShutdown"),
    (11602, "InterruptedDueToReplStateChange"),
    (13435, "NotPrimaryNoSecondaryOk"),
    (13436, "NotPrimaryOrSecondary"),
];

/// The name that drivers show: `LocationN` where there is no other.
pub(crate) fn name(code: i32) -> String {
    let known = own(code).or_else(|| NAMES.iter().find(|(number, _)| *number == code).map(|(_, name)| *name));
    known.map_or_else(|| format!("Location{code}"), str::to_owned)
}
