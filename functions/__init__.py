"""One package per Lambda function, each named after its use case; all are built from this one folder."""
