"""From the bytes of Kafka records to drafts: one decoder for each encoding of a topic.

Records reach this package as bytes: so numbers keep their digits, and a record that is not exactly one JSON object is
recognised (`tables/json_records.py`).
"""

from collections.abc import Callable, Mapping

import pyarrow as pa

from holdfast.streaming.decoding import debezium, plain, unwrapped, upsert
from holdfast.streaming.incoming.arrivals import Draft, Target

Decoder = Callable[[pa.Table | pa.RecordBatch, Target, str, Mapping[str, str]], Draft]
"""Takes a batch (binary key and value, partition, offset, timestamp), the target, the topic, and the encodings of
columns for records without a schema ({column: name}); returns a draft in the order of (partition, offset)."""

_DECODERS: Mapping[str, Decoder] = {
    "json": plain.decode,
    "upsert": upsert.decode,
    "debezium": debezium.decode,
    "debezium-unwrapped": unwrapped.decode,
}


def decoder(encoding: str) -> Decoder:
    """Return the decoder of an encoding.

    >>> decoder("upsert").__module__
    'holdfast.streaming.decoding.upsert'
    """
    return _DECODERS[encoding]
