"""The figures that the paper prints: error in percent, bound in nats, squared error of pixels in [0, 1].

Keys are the names of presets.
"""

TABLE_1 = {"mnist-va": 1.04, "mnist-mmva": 0.90, "mnist-conv-va": 1.35, "mnist-conv-mmva": 0.45}
TABLE_1_QUOTED = {
    "VA+Class-conditionVA (Kingma et al. 2014)": 0.96,
    "Stochastic Pooling (Zeiler & Fergus 2013)": 0.47,
    "Network in Network (Lin et al. 2014)": 0.47,
    "Maxout Network (Goodfellow et al. 2013)": 0.45,
    "DSN (Lee et al. 2015)": 0.39,
}

TABLE_2 = {"svhn-conv-va": 25.3, "svhn-conv-mmva": 3.09}
TABLE_2_QUOTED = {
    "CNN (Sermanet et al. 2012)": 4.9,
    "Stochastic Pooling (Zeiler & Fergus 2013)": 2.80,
    "Maxout Network (Goodfellow et al. 2013)": 2.47,
    "Network in Network (Lin et al. 2014)": 2.35,
    "DSN (Lee et al. 2015)": 1.92,
}

# (error, bound) by C
TABLE_3 = {
    0: (1.35, -93.17),
    1: (1.86, -95.86),
    10: (0.88, -95.90),
    100: (0.54, -96.35),
    1000: (0.45, -99.62),
    10_000: (0.43, -112.12),
}

TABLE_4_PRESETS = ("mnist-va", "mnist-mmva", "mnist-conv-va", "mnist-conv-mmva")
_TABLE_4_ROWS = {
    "Rand-Drop 0.2": (0.0109, 0.0110, 0.0111, 0.0147),
    "Rand-Drop 0.4": (0.0127, 0.0127, 0.0127, 0.0161),
    "Rand-Drop 0.6": (0.0168, 0.0165, 0.0175, 0.0203),
    "Rand-Drop 0.8": (0.0379, 0.0358, 0.0453, 0.0449),
    "Rect 6": (0.0637, 0.0645, 0.0585, 0.0597),
    "Rect 8": (0.0850, 0.0841, 0.0754, 0.0724),
    "Rect 10": (0.1100, 0.1079, 0.0978, 0.0884),
    "Rect 12": (0.1450, 0.1342, 0.1299, 0.1090),
}
TABLE_4 = {row: dict(zip(TABLE_4_PRESETS, values, strict=True)) for row, values in _TABLE_4_ROWS.items()}

TABLE_5_PRESETS = ("mnist-cnn", "mnist-conv-va", "mnist-conv-mmva")
_TABLE_5_ROWS = {
    "Rect 6": (7.5, 2.5, 1.9),
    "Rect 8": (18.8, 4.2, 3.7),
    "Rect 10": (30.3, 8.4, 7.7),
    "Rect 12": (47.2, 18.3, 15.9),
}
TABLE_5 = {row: dict(zip(TABLE_5_PRESETS, values, strict=True)) for row, values in _TABLE_5_ROWS.items()}

# error with 100, 1,000 and all labels, as printed
TABLE_6 = ("1.24 ± 0.54", "0.54 ± 0.04", "0.31")
TABLE_6_QUOTED = {
    "M1+M2 (Kingma et al. 2014)": ("3.33 ± 0.14", "2.4 ± 0.02", "0.96"),
    "VAT (Miyato et al. 2015)": ("2.33", "1.36", "0.64"),
    "Ladder (Rasmus et al. 2015)": ("1.06 ± 0.37", "0.84 ± 0.08", "0.57"),
    "CatGAN (Springenberg 2016)": ("1.91 ± 0.10", "1.73 ± 0.18", "0.91"),
    "ADGM (Maaløe et al. 2016)": ("0.96 ± 0.02", "–", "–"),
    "SDGM (Maaløe et al. 2016)": ("1.32 ± 0.07", "–", "–"),
    "Conv-CatGAN (Springenberg 2016)": ("1.39 ± 0.28", "–", "0.48"),
    "Improved-GAN (Salimans et al. 2016)": ("0.96 ± 0.07", "–", "–"),
    "Conv-Ladder (Rasmus et al. 2015)": ("0.89 ± 0.50", "–", "–"),
}
# error with 100 labels, from the text
ABLATIONS = {
    "mnist-mmcva-100": "1.24",
    "mnist-mmcva-100-no-hat": "6.4",
    "mnist-mmcva-100-classifier": "2.1",
    "mnist-mmcva-100-no-balance": "0.2 more",
}

# error on SVHN and small NORB with 1,000 labels, as printed
TABLE_7 = ("4.95 ± 0.18", "6.11 ± 0.58")
TABLE_7_QUOTED = {
    "M1+M2 (Kingma et al. 2014)": ("36.02 ± 0.10", "18.79 ± 0.05"),
    "VAT (Miyato et al. 2015)": ("24.63", "9.88"),
    "ADGM (Maaløe et al. 2016)": ("22.86", "10.06 ± 0.05"),
    "SDGM (Maaløe et al. 2016)": ("16.61 ± 0.24", "9.40 ± 0.04"),
    "Improved-GAN (Salimans et al. 2016)": ("8.11 ± 1.3", "–"),
    "Ensemble-10-GANs (Salimans et al. 2016)": ("5.88 ± 1.0", "–"),
}
