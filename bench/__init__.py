"""How fast the product is, each figure beside a yardstick that was measured in the same run. Trust ratios only."""
