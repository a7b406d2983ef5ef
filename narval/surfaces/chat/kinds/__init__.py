"""The kinds of chats, one module each: the protocol of a service, behind one contract.

Only `narval chat` imports them, and only those that the settings name.
"""
