"""SwarMPI's model as a GPT-2 of Hugging Face: whose tensor is whose, and what config.json says."""

OUTER = {  # our names and GPT-2's
    "embedding.tokens": "transformer.wte.weight",
    "embedding.positions": "transformer.wpe.weight",
    "final_norm.weight": "transformer.ln_f.weight",
    "final_norm.bias": "transformer.ln_f.bias",
    "head.weight": "lm_head.weight",
}
PARTS = {  # of a layer, the same
    "norm1": "ln_1",
    "qkv": "attn.c_attn",
    "projection": "attn.c_proj",
    "norm2": "ln_2",
    "up": "mlp.c_fc",
    "down": "mlp.c_proj",
}
EPSILON = 1e-5  # of all norms


class Model:
    """The sizes of a model, and its tensors."""

    def __init__(self, deck_section):
        """By the keys of a deck's section [model]. Raises KeyError where one is missing."""
        model = deck_section
        self.layers, self.width, self.heads = model["layers"], model["width"], model["heads"]
        self.context, self.vocab = model["context"], model["vocab"]
        self.hidden = model.get("ffn", 0) or 4 * self.width
        self.groups = model.get("shared_groups", 0) or self.layers

    def layer_shapes(self):
        """(rows, columns) of each tensor of a layer: of matrices (outputs, inputs)."""
        width, hidden = self.width, self.hidden
        matrices = {
            "qkv": (3 * width, width),
            "projection": (width, width),
            "up": (hidden, width),
            "down": (width, hidden),
        }
        shapes = {}
        for part in PARTS:
            shapes[f"{part}.weight"] = matrices.get(part, (1, width))
            shapes[f"{part}.bias"] = (1, matrices[part][0] if part in matrices else width)
        return shapes

    def shapes(self):
        """(rows, columns) of all tensors, in the order of the model."""
        table, vector = (self.vocab, self.width), (1, self.width)
        shapes = {"embedding.tokens": table, "embedding.positions": (self.context, self.width)}
        for group in range(self.groups):
            for name, shape in self.layer_shapes().items():
                shapes[f"layer.{group}.{name}"] = shape
        last = {"final_norm.weight": vector, "final_norm.bias": vector, "head.weight": table}
        return shapes | last

    def in_gpt2(self):
        """GPT-2's name, its shape there, our name, and whether it is transposed, of each tensor.

        Our matrices are (outputs, inputs), those of GPT-2's layers (inputs, outputs). Layers that
        share their weights have a copy each.
        """
        for ours, shape in self.shapes().items():
            if ours in OUTER:
                yield OUTER[ours], shape[ours.startswith("final_norm") :], ours, False
        for layer in range(self.layers):
            group = layer // (self.layers // self.groups)
            for name, shape in self.layer_shapes().items():
                part, kind = name.split(".")
                is_matrix = kind == "weight" and not part.startswith("norm")
                theirs = f"transformer.h.{layer}.{PARTS[part]}.{kind}"
                shape = shape[::-1] if is_matrix else shape[1:]
                yield theirs, shape, f"layer.{group}.{name}", is_matrix

    def config(self):
        """What config.json says; there was no dropout, and what tokens mean is not known."""
        return {
            "architectures": ["GPT2LMHeadModel"],
            "model_type": "gpt2",
            "vocab_size": self.vocab,
            "n_positions": self.context,
            "n_ctx": self.context,  # older name, which converters of other programs ask for
            "n_embd": self.width,
            "n_layer": self.layers,
            "n_head": self.heads,
            "n_inner": self.hidden,
            "activation_function": "gelu_new",
            "layer_norm_epsilon": EPSILON,
            "tie_word_embeddings": False,
            "embd_pdrop": 0.0,
            "attn_pdrop": 0.0,
            "resid_pdrop": 0.0,
            "bos_token_id": None,
            "eos_token_id": None,
            "torch_dtype": "float32",
        }
