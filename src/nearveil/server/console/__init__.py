"""The operator's web page: published people, an attack on made-up ones, what the dial costs, the card, the ledger."""
