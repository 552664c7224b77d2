"""What an initializer of a TrainJob runs: fetches a dataset or a model before the training begins.

    python -m echelon.initializers dataset|model
    STORAGE_URI   hf://org/repository   s3://bucket/prefix   cache://schema/table (datasets)

It stands alone: the standard library and nothing else of Echelon, so that an image for it needs only this package.
"""
