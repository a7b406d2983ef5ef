"""Mail: accounts, writing mails, notices to people, and their answers."""
