"""Who speaks: seats and samplers that turn chats into tokens and back, and the play that brings them to a table."""
