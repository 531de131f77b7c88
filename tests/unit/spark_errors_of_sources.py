"""Errors of Spark as they were seen while it followed Delta tables and topics: what each means (see `spark_errors.py`)."""

from __future__ import annotations

from holdfast.constraints import ExternalError, InputError
from tests.unit.spark_errors import (
    DELTA,
    FILE,
    ILLEGAL,
    NOTHING_LOST,
    PLACES,
    REBUILD,
    SEED,
    SKIP,
    Case,
    called,
    ended,
    job,
)

OF_DELTA: list[Case] = [
    (
        "change data",
        ended(
            *job(
                "org.apache.spark.SparkException",
                "[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file "
                "file:///lake/shop/_change_data/cdc-00000-1.c000.snappy.parquet. File does not exist.",
            ),
            (FILE, "File file:/lake/shop/_change_data/cdc-00000-1.c000.snappy.parquet does not exist"),
        ),
        InputError,
        ("no longer has versions that were not read yet", "Put its files back", SEED, PLACES["delta"]),
        (REBUILD, SKIP, "Kafka"),
    ),
    (
        "a data file",
        ended(
            *job(FILE, "File file:/lake/shop/part-00000-9d.snappy.parquet does not exist"),
        ),
        InputError,
        ("no longer has versions that were not read yet", "Put its files back", SEED),
        (REBUILD,),
    ),
    (
        "the log",
        ended(
            (
                DELTA,
                (
                    "[DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE] If you never deleted it, it's likely your query is lagging "
                    "behind. Please delete its checkpoint to restart from scratch."
                ),
            )
        ),
        InputError,
        ("no longer has versions that were not read yet", "Put its files back", SEED),
        (REBUILD,),
    ),
    (
        "versions of the log",
        ended(
            (
                ILLEGAL,
                (
                    "[DELTA_MISSING_FILES_UNEXPECTED_VERSION] Delta stream cannot resume from version 3; transaction log starts "
                    "at 7."
                ),
            )
        ),
        InputError,
        ("no longer has versions that were not read yet", SEED),
        (REBUILD,),
    ),
    (
        "the table",
        ended((FILE, "File file:/lake/shop does not exist")),
        ExternalError,
        ("is not there at the moment", NOTHING_LOST),
        (SEED, REBUILD),
    ),
    (
        "the table with its log",
        ended((FILE, "File file:/lake/shop/_delta_log does not exist")),
        ExternalError,
        ("is not there at the moment", NOTHING_LOST),
        (SEED, REBUILD),
    ),
    (
        "a file of the log",
        ended((FILE, "File file:/lake/shop/_delta_log/00000000000000000004.json does not exist")),
        InputError,
        ("no longer has versions that were not read yet", "Put its files back", SEED),
        (REBUILD,),
    ),
    (
        "the table, as Delta says it",
        called(
            (
                "org.apache.spark.sql.delta.DeltaAnalysisException",
                "[DELTA_PATH_DOES_NOT_EXIST] /lake/shop doesn't exist, or is not a Delta table.",
            )
        ),
        ExternalError,
        ("is not there at the moment", NOTHING_LOST),
        (SEED, REBUILD),
    ),
    (
        "a feed that was off",
        ended(
            (
                "org.apache.spark.sql.delta.DeltaAnalysisException",
                (
                    "[DELTA_MISSING_CHANGE_DATA] Error getting change data for range [4 , 6] as change data was not recorded for "
                    "version [5]."
                ),
            )
        ),
        InputError,
        ("change feed was not on", SEED),
        (REBUILD,),
    ),
    (
        "another schema",
        ended(
            (
                ILLEGAL,
                "[DELTA_SCHEMA_CHANGED_WITH_VERSION] Detected schema change in version 5: streaming source schema: root",
            )
        ),
        InputError,
        ("only added, start again", SEED),
        (REBUILD,),
    ),
    (
        "another table",
        ended(
            (
                "org.apache.spark.sql.delta.DeltaIllegalStateException",
                (
                    "[DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE] The streaming query was reading from an unexpected Delta "
                    "table (id = 'a')."
                ),
            )
        ),
        InputError,
        ("another Delta table", "Put that one back", SEED),
        (REBUILD,),
    ),
    (
        "an older copy",
        ended(
            (
                ILLEGAL,
                (
                    "[DELTA_STREAMING_TRAILING_COMMIT_MISSING] Delta stream detected commits up to version 9 but files after "
                    "version 7 are missing from the transaction log."
                ),
            )
        ),
        InputError,
        ("fewer versions than were seen before", "Put the newest one back", SEED),
        (REBUILD,),
    ),
    (
        "a file that cannot be read",
        ended(
            *job(
                "org.apache.spark.SparkException",
                "[FAILED_READ_FILE.CANNOT_READ_FILE_FOOTER] Encountered error while reading file "
                "file:///lake/shop/part-00000-9d.snappy.parquet. Could not read footer.",
            )
        ),
        InputError,
        ("bring it back whole",),
        (SEED, "no longer has versions"),
    ),
]


OF_KAFKA: list[Case] = [
    (
        "records that are gone",
        ended(
            (
                "org.apache.spark.sql.kafka010.KafkaIllegalStateException",
                (
                    "[KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE] Some data may have been lost because they are not available in "
                    "Kafka any more; Could not read records in offset [3, 9) for topic partition shop-0."
                ),
            ),
            (
                "org.apache.kafka.clients.consumer.OffsetOutOfRangeException",
                "Fetch position FetchPosition{offset=3} is out of range for partition shop-0",
            ),
        ),
        InputError,
        ("Kafka no longer has records that were not read yet of topic shop at broker:9092", "correct 'servers'", SEED),
        (REBUILD, "change feed"),
    ),
    (
        "the topic",
        ended(
            (
                "org.apache.kafka.common.errors.UnknownTopicOrPartitionException",
                "This server does not host this topic-partition.",
            )
        ),
        InputError,
        ("topic shop at broker:9092 is not there", "correct 'source.topic' or 'servers'"),
        (REBUILD, "change feed"),
    ),
    (
        "no access to the topic",
        ended(
            ("org.apache.kafka.common.errors.TopicAuthorizationException", "Not authorized to access topics: [shop]")
        ),
        ExternalError,
        ("security", NOTHING_LOST),
        (SEED, REBUILD),
    ),
    (
        "servers",
        ended(
            (
                "org.apache.kafka.common.errors.TimeoutException",
                "Timed out waiting for a node assignment. Call: describeTopics",
            )
        ),
        ExternalError,
        ("Check that the servers of topic shop at broker:9092 answer", NOTHING_LOST),
        (SEED, REBUILD),
    ),
]
