"""Rotary embedding of positions; `popxl_addons.ops.rotary_pos_embed`."""

from tensorflow_ipu.frontends.popxl_addons.ops.rotary_pos_embed.rotary_pos_embed import (
    rotary_pos_embed,
    trig_table_constants,
    trig_tables,
)

__all__ = [
    "rotary_pos_embed",
    "trig_table_constants",
    "trig_tables",
]
