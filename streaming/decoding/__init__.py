"""From the bytes of Kafka records to drafts: one decoder for each encoding of a topic.

Records travel as bytes, and are read here and nowhere before: so numbers keep their digits, and what is not exactly
one JSON object is told apart (`tables/json_records.py`).
"""

from collections.abc import Callable, Mapping

import pyarrow as pa

from holdfast.streaming.decoding import debezium, plain, unwrapped, upsert
from holdfast.streaming.incoming.arrivals import Draft, Target

Decoder = Callable[[pa.Table | pa.RecordBatch, Target, str, Mapping[str, str]], Draft]
"""A batch (key and value: binary, partition, offset, timestamp), its target, its topic, and how columns are written
where no schema says so ({column: name of the encoding}), to a draft in the order of (partition, offset)."""

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
