"""The control socket: server, client, frames."""
