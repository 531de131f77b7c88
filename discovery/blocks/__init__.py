"""Tables larger than one machine: rows in immutable blocks, searched by tasks that each read a few of them."""
