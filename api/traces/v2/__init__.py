"""The second generation of the query API: `/api/v2/…`, as the SDKs' generated clients call it (trace contract §5.5)."""
