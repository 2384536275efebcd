{{ config(materialized='table', file_format='parquet') }}

SELECT symbol, count(*) AS dips, min(low) AS low FROM {{ ref('dips') }} GROUP BY symbol
