"""The rules of the service, pure: no file, no socket, no library that tokenizes."""
