"""The slice of PostgREST that Runyard uses, spoken over one pipelined round trip per request."""
