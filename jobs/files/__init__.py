"""The inputs and outputs of the commands on files, and the engines that read and search them."""
