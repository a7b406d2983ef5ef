"""Mail: accounts, mails that are written, notices to people, and their answers."""
