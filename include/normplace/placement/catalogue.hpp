// SPDX-License-Identifier: BSD-3-Clause
//
// The placements, each written once. L is the number of layers, l the layer counted from 1.
//
//     PostLN             norm(x + f(x))                             the original Transformer; needs warm-up
//     PreLN              x + f(norm(x))                             the default since GPT-2
//     NoNorm             x + f(x)                                   a control: what happens without any norm
//     ResPostNorm        x + norm(f(x))                             OLMo 2's "reordered norm"
//     SwinV2             the same, the gain starts at 0
//     PeriLN             x + norm<out>(f(norm<in>(x)))              Gemma 2; the same formula as CogView's Sandwich-LN
//     ScaledPreLN        x + f(norm(x))                             GPT-2: W_o and W_2 divided by sqrt(2L)
//     LayerNormScaling   x + f(1/sqrt(l) * norm(x))                 Pre-LN whose deep layers keep an effect
//     DepthScaled        x + 1/sqrt(2L) * f(norm(x))                Pre-LN with a stream that does not grow
//     LayerScale         x + lambda * f(norm(x))                    a learned factor for each channel, small at first
//     ReZero             x + a * f(x)                               no norm; a learned factor that starts at 0
//     SkipInit           the same, a factor for each sublayer and not for each layer
//     TFixup             x + f(x)                                   no norm; smaller weights instead
//     DeepNorm           norm(alpha * x + f(x))                     Post-LN for very deep stacks
//     Admin              norm(omega * x + f(x))                     Post-LN, omega by the branches' sizes
//     LipsFormer         norm(x + a * f(x))                         with CentreNorm for the norm
//     NGPT               norm(x + alpha * (norm<branch>(f(x)) - x)) with UnitNorm for the norm
//     Keel               norm<out>(alpha * x + f(norm<in>(x)))      Post-LN with a long skip path
//     MixLN              Post-LN in the first quarter of the layers, then Pre-LN
//
// with norms inside the sublayer, or chosen by its kind:
//
//     QKNorm             Pre-LN, a norm on queries and keys
//     SubLN              Pre-LN, a norm before W_o and before W_2
//     NormFormer         Pre-LN, a norm behind W_o and before W_2, a factor for each head
//     HybridNorm         x + f(x) in attention, a norm on queries, keys and values; f(norm(x)) + norm(x) elsewhere
//     HybridNormStar     the same, the first layer Pre-LN
//
// with more than one stream:
//
//     Parallel           x + attention(norm(x)) + feed_forward(norm'(x))
//     ParallelOneNorm    the same with one norm
//     ResiDual           x <- norm(x + f(x)), r <- r + f(x); output x + norm(r)
//     B2T                Post-LN whose layer's last norm also adds the layer's input
//     HyperConnections   two copies of the stream, mixed by learned factors; Pre-LN at the start
//
// PreLN is the one to copy for a placement of your own, ResiDual for one with a second stream.
#pragma once

#include <cmath>

#include <normplace/placement/placement.hpp>

namespace normplace {

/// The norm after the residual addition. Vaswani et al. 2017, arXiv:1706.03762; Xiong et al. 2020, arXiv:2002.04745.
/// The stream leaves each block normalised, so there is no final norm.
struct PostLN {
    static constexpr auto name = "post-ln";
    static constexpr auto formula = norm(x + f(x));
    static constexpr bool final_norm = false;
};

/// The norm inside the residual branch. Xiong et al. 2020, arXiv:2002.04745.
struct PreLN {
    static constexpr auto name = "pre-ln";
    static constexpr auto formula = x + f(norm(x));
    static constexpr bool final_norm = true;
};

/// No norm anywhere: the control.
struct NoNorm {
    static constexpr auto name = "none";
    static constexpr auto formula = x + f(x);
    static constexpr bool final_norm = false;
};

/// The norm at the end of the residual branch, as in OLMo 2. Liu et al. 2021, arXiv:2111.09883.
struct ResPostNorm {
    static constexpr auto name = "res-post-norm";
    static constexpr auto formula = x + norm(f(x));
    static constexpr bool final_norm = true;
};

/// ResPostNorm as Swin v2 starts it: with gain 0, so that every branch is silent at first. Liu et al. 2021,
/// arXiv:2111.09883.
struct SwinV2 {
    static constexpr auto name = "swin-v2";
    static constexpr auto formula = x + norm(f(x), 0.0);
    static constexpr bool final_norm = true;
};

/// A norm on both sides of the sublayer. Kim et al. 2025, arXiv:2502.02732; Ding et al. 2021 (Sandwich-LN),
/// arXiv:2105.13290. Peri-LN's additional norm of the embedding is the embedding's, not the block's.
struct PeriLN {
    static constexpr auto name = "peri-ln";
    static constexpr auto formula = x + norm<out>(f(norm<in>(x)));
    static constexpr bool final_norm = true;
};
using SandwichLN = PeriLN;

/// Pre-LN with W_o and W_2 divided by sqrt(2L), whatever the initialization. Radford et al. 2019 (GPT-2).
/// `Initialization::gpt2()` does that itself; do not use both.
struct ScaledPreLN {
    static constexpr auto name = "scaled-pre-ln";
    static constexpr auto formula = x + f(norm(x));
    static constexpr bool final_norm = true;

    static double gain(Role role, const Depth& depth) {
        const bool ends_the_branch = role == Role::out || role == Role::linear2;
        return ends_the_branch ? 1.0 / std::sqrt(2.0 * static_cast<double>(depth.layers)) : 1.0;
    }
};

namespace detail {
/// (L^4 M)^power of an encoder of L layers and a decoder of M.
inline double encoder_decoder_power(const Depth& encoder, double power) {
    return std::pow(static_cast<double>(encoder.layers), 4.0 * power) *
           std::pow(static_cast<double>(encoder.other_layers), power);
}
}  // namespace detail

/// Post-LN with a larger skip path and a smaller start: alpha on the stream, and a gain beta on W_v, W_o, W_1 and W_2
/// (not on W_q, W_k). A stack of L layers: alpha = (2L)^(1/4), beta = (8L)^(-1/4). In an encoder-decoder of L and M
/// layers: the encoder's alpha = 0.81 (L^4 M)^(1/16), beta = 0.87 (L^4 M)^(-1/16); the decoder's alpha = (3M)^(1/4),
/// beta = (12M)^(-1/4). Wang et al. 2022, arXiv:2203.00555.
struct DeepNorm {
    static constexpr auto name = "deep-norm";
    static constexpr Scalar alpha = scalar("alpha", [](const Depth& depth) {
        const double layers = static_cast<double>(depth.layers);
        switch (depth.stack) {
            case StackKind::encoder: return 0.81 * detail::encoder_decoder_power(depth, 1.0 / 16.0);
            case StackKind::decoder: return std::pow(3.0 * layers, 0.25);
            default: return std::pow(2.0 * layers, 0.25);
        }
    });
    static constexpr auto formula = norm(alpha * x + f(x));
    static constexpr bool final_norm = false;

    static double gain(Role role, const Depth& depth) {
        const double layers = static_cast<double>(depth.layers);
        if (!is_scaled(role)) return 1.0;
        switch (depth.stack) {
            case StackKind::encoder: return 0.87 * detail::encoder_decoder_power(depth, -1.0 / 16.0);
            case StackKind::decoder: return std::pow(12.0 * layers, -0.25);
            default: return std::pow(8.0 * layers, -0.25);
        }
    }
    /// The matrices whose gain Wang et al. scale, here and in Sub-LN.
    static constexpr bool is_scaled(Role role) {
        return role == Role::value || role == Role::out || role == Role::linear1 || role == Role::linear2;
    }
};

/// Post-LN with a learned omega on the stream, for each channel, that starts where no branch outweighs what came before
/// it: omega^2 = 1 + the sum of E f(x)^2 over the sublayers before. Liu et al. 2020, arXiv:2004.08249, who measure
/// these on a first pass; `EncoderOptions::branch_squares` takes those that are predicted. Where nobody has said, each
/// is 1.
struct Admin {
    static constexpr auto name = "admin";
    static constexpr Gate omega = gate("omega", [](const Depth& depth) {
        const bool unknown = depth.earlier_branches != depth.earlier_branches;
        return std::sqrt(1.0 + (unknown ? static_cast<double>(depth.sublayers_before()) : depth.earlier_branches));
    });
    static constexpr auto formula = norm(omega * x + f(x));
    static constexpr bool final_norm = false;
};

/// Post-LN with a skip path as long as the number of sublayers, and a norm before the sublayer too; the first layer has
/// neither. 2026, arXiv:2601.19895.
struct Keel {
    static constexpr auto name = "keel";
    static constexpr Condition first_layer{"l = 1", [](const Depth& depth) { return depth.layer == 1; }};
    static constexpr Scalar alpha =
        scalar("alpha", [](const Depth& depth) { return 2.0 * static_cast<double>(depth.layers); });
    static constexpr auto formula = when(first_layer, x + f(norm<in>(x)), norm<out>(alpha* x + f(norm<in>(x))));
    static constexpr bool final_norm = false;
};

/// Post-LN in the first quarter of the layers, Pre-LN in the others. Li et al. 2024, arXiv:2412.13795.
struct MixLN {
    static constexpr auto name = "mix-ln";
    static constexpr Condition early{"l <= L/4", [](const Depth& depth) { return 4 * depth.layer <= depth.layers; }};
    static constexpr auto formula = when(early, norm(x + f(x)), x + f(norm(x)));
    static constexpr bool final_norm = true;
};

/// Residual branches divided by sqrt(2L), so that the stream does not grow. Noci et al. 2022, arXiv:2206.03126.
struct DepthScaled {
    static constexpr auto name = "depth-scaled";
    static constexpr Scalar scale = scalar(
        "1/sqrt(2L)", [](const Depth& depth) { return 1.0 / std::sqrt(2.0 * static_cast<double>(depth.layers)); });
    static constexpr auto formula = x + scale * f(norm(x));
    static constexpr bool final_norm = true;
};

/// A learned factor for each channel of a branch, which starts at 0.1 for up to 18 layers, 1e-5 up to 24, and 1e-6
/// beyond. Touvron et al. 2021, arXiv:2103.17239.
struct LayerScale {
    static constexpr auto name = "layer-scale";
    static constexpr Gate lambda = gate("lambda", [](const Depth& depth) {
        return depth.layers <= 18 ? 0.1 : depth.layers <= 24 ? 1e-5 : 1e-6;
    });
    static constexpr auto formula = x + lambda * f(norm(x));
    static constexpr bool final_norm = true;
};

/// No norm, and a learned number on each branch that starts at 0, one for both sublayers of a layer. Bachlechner et al.
/// 2020, arXiv:2003.04887.
struct ReZero {
    static constexpr auto name = "rezero";
    static constexpr auto formula = x + shared("a", 0.0) * f(x);
    static constexpr bool final_norm = false;
};

/// ReZero with a number for each sublayer. De and Smith 2020, arXiv:2002.10444.
struct SkipInit {
    static constexpr auto name = "skip-init";
    static constexpr auto formula = x + learned("a", 0.0) * f(x);
    static constexpr bool final_norm = false;
};

/// No norm, but smaller weights: embeddings times (9L)^(-1/4), and W_v, W_o, W_1 and W_2 times 0.67 L^(-1/4), in a
/// decoder of M layers (9M)^(-1/4) for all of them. Huang et al. 2020 (ICML).
struct TFixup {
    static constexpr auto name = "t-fixup";
    static constexpr auto formula = x + f(x);
    static constexpr bool final_norm = false;

    static double gain(Role role, const Depth& depth) {
        const double layers = static_cast<double>(depth.layers);
        if (role == Role::embedding) return std::pow(9.0 * layers, -0.25);
        if (!DeepNorm::is_scaled(role)) return 1.0;
        return depth.stack == StackKind::decoder ? std::pow(9.0 * layers, -0.25) : 0.67 * std::pow(layers, -0.25);
    }
};

/// The part of LipsFormer that is a placement: a learned factor for each channel of a branch, which starts at 1/L, and
/// CentreNorm for the norm, as its authors run it: behind the sum. Its attention (cosines) and its weights (spectral
/// norm 1) are not here. Qi et al. 2023, arXiv:2304.09856.
struct LipsFormer {
    static constexpr auto name = "lips-former";
    static constexpr Gate a = gate("a", [](const Depth& depth) { return 1.0 / static_cast<double>(depth.layers); });
    static constexpr auto formula = norm(x + a * f(x));
    static constexpr bool final_norm = true;
};

/// A step from x towards f(x) on the unit sphere, with UnitNorm for the norm and a learned length for each channel,
/// 0.05 at the start. Queries and keys have length 1 and a learned factor s for each entry, which both share. The
/// scores are sqrt(K) (s_qk o q) . (s_qk o k) with s_qk = 1 at the start: as s = sqrt(K) s_qk here, beside 1/sqrt(K),
/// they are the same. The layers' matrices are unit vectors along the model width, at the start and after each training
/// step. Not here: the factors of the hidden units, which a ReLU hands on to W_2, and of the logits, which are the
/// lengths of the readout's rows. Loshchilov et al. 2024, arXiv:2410.01131.
struct NGPT {
    static constexpr auto name = "ngpt";
    static constexpr auto formula = norm(x + gate("alpha", 0.05) * (norm<"branch">(f(x)) - x));
    static constexpr bool final_norm = false;
    static constexpr auto norm_kind = NormKind::unit_norm;
    static constexpr bool unit_matrices = true;
    static SublayerNorms inside(const Depth&) { return {.query = true, .key = true, .query_key_scale = true}; }
};

/// Pre-LN with a norm on queries and keys, head by head. Dehghani et al. 2023, arXiv:2302.05442; Henry et al. 2020,
/// arXiv:2010.04245, give them length 1 and the scores a learned factor instead.
struct QKNorm {
    static constexpr auto name = "qk-norm";
    static constexpr auto formula = x + f(norm(x));
    static constexpr bool final_norm = true;
    static SublayerNorms inside(const Depth&) { return {.query = true, .key = true}; }
};

/// Pre-LN with a norm before each sublayer's last matrix, and a gain on W_v, W_o, W_1 and W_2: sqrt(ln 2L); in an
/// encoder-decoder of L and M layers sqrt(ln(3M) ln(2L)/3) and sqrt(ln 3M). Wang et al. 2022 (Magneto),
/// arXiv:2210.06423.
struct SubLN {
    static constexpr auto name = "sub-ln";
    static constexpr auto formula = x + f(norm(x));
    static constexpr bool final_norm = true;
    static SublayerNorms inside(const Depth& depth) {
        return {.heads = depth.sublayer == SublayerKind::attention, .hidden = true};
    }
    static double gain(Role role, const Depth& depth) {
        if (!DeepNorm::is_scaled(role) || depth.sublayer == SublayerKind::cross_attention) return 1.0;
        const auto log = [](double factor, std::size_t layers) {
            return std::log(factor * static_cast<double>(layers));
        };
        switch (depth.stack) {
            case StackKind::encoder: return std::sqrt(log(3.0, depth.other_layers) * log(2.0, depth.layers) / 3.0);
            case StackKind::decoder: return std::sqrt(log(3.0, depth.layers));
            default: return std::sqrt(log(2.0, depth.layers));
        }
    }
};

/// Pre-LN with a norm behind attention, one before W_2, and a learned factor for each head. Shleifer et al. 2021,
/// arXiv:2110.09456.
struct NormFormer {
    static constexpr auto name = "norm-former";
    static constexpr auto formula = when(in_attention, x + norm<out>(f(norm<in>(x))), x + f(norm<in>(x)));
    static constexpr bool final_norm = true;
    static SublayerNorms inside(const Depth&) { return {.head_scale = true, .hidden = true}; }
};

/// Attention with norms on queries, keys and values and none before it; a feed-forward whose skip path starts behind
/// its norm. Zhuo et al. 2025, arXiv:2503.04598.
struct HybridNorm {
    static constexpr auto name = "hybrid-norm";
    static constexpr auto formula = when(in_attention, x + f(x), f(norm(x)) + norm(x));
    static constexpr bool final_norm = true;
    static SublayerNorms inside(const Depth&) { return {.query = true, .key = true, .value = true}; }
};

/// HybridNorm whose first layer is Pre-LN (and keeps the norms on queries, keys and values). Zhuo et al. 2025,
/// arXiv:2503.04598.
struct HybridNormStar {
    static constexpr auto name = "hybrid-norm-star";
    static constexpr auto formula = when(Keel::first_layer, x + f(norm(x)), HybridNorm::formula);
    static constexpr bool final_norm = true;
    static SublayerNorms inside(const Depth& depth) { return HybridNorm::inside(depth); }
};

/// A layer's sublayers side by side, each with its own norm of the layer's input, which is the second stream. Black et
/// al. 2022 (GPT-NeoX), arXiv:2204.06745.
struct Parallel {
    static constexpr auto name = "parallel";
    static constexpr auto layer_input = when(first_in_layer, x, stream(1, "x_l"));
    static constexpr auto formula = streams(x + f(norm(layer_input)), layer_input);
    static constexpr auto output = norm(x);
};

/// A layer's sublayers side by side, with one norm of the layer's input, which the second stream holds. Chowdhery et
/// al. 2022 (PaLM), arXiv:2204.02311; GPT-J.
struct ParallelOneNorm {
    static constexpr auto name = "parallel-one-norm";
    static constexpr auto input = when(first_in_layer, norm(x), stream(1, "n_l"));
    static constexpr auto formula = streams(x + f(input), input);
    static constexpr auto output = norm(x);
};

/// Post-LN beside a second stream that is never normalised on its way. Xie et al. 2023, arXiv:2304.14802.
struct ResiDual {
    static constexpr auto name = "resi-dual";
    static constexpr auto r = stream(1, "r");
    static constexpr auto formula = streams(norm(x + f(x)), r + f(x));
    static constexpr auto output = x + norm(r);
};

/// Bottom-to-top connections: Post-LN whose layer's last norm also adds the layer's input, the second stream. Takase et
/// al. 2022, arXiv:2206.00330.
struct B2T {
    static constexpr auto name = "b2t";
    static constexpr auto x_l = stream(1, "x_l");
    static constexpr auto formula =
        streams(when(in_attention, norm(x + f(x)), norm(x + f(x) + x_l)), when(first_in_layer, x, x_l));
    static constexpr auto output = x;
};

/// Two streams, of which learned factors make the sublayer's input and among which they share its output. They start
/// so that the k-th sublayer reads stream k mod 2 and both take its output, which is Pre-LN. Zhu et al. 2024,
/// arXiv:2409.19606, the static form.
struct HyperConnections {
    static constexpr auto name = "hyper-connections";
    static constexpr auto h = stream(1, "h");
    static constexpr bool odd(const Depth& depth) { return depth.sublayers_before() % 2 == 1; }
    static constexpr Gate in0 = learned("in0", [](const Depth& depth) { return odd(depth) ? 0.0 : 1.0; });
    static constexpr Gate in1 = learned("in1", [](const Depth& depth) { return odd(depth) ? 1.0 : 0.0; });
    static constexpr auto branch = f(norm(in0 * x + in1 * h));
    static constexpr auto formula =
        streams(learned("mix00", 1.0) * x + learned("mix01", 0.0) * h + learned("out0", 1.0) * branch,
                learned("mix10", 0.0) * x + learned("mix11", 1.0) * h + learned("out1", 1.0) * branch);
    static constexpr auto output = norm(x + h);
};

/// Pre-LN whose normalised input shrinks with the layer, for both sublayers alike. Not meant to be combined with
/// GPT-2's 1/sqrt(2L) initialization. Sun et al. 2025, arXiv:2502.05795.
struct LayerNormScaling {
    static constexpr auto name = "ln-scaling";
    static constexpr Scalar scale =
        scalar("1/sqrt(l)", [](const Depth& depth) { return 1.0 / std::sqrt(static_cast<double>(depth.layer)); });
    static constexpr auto formula = x + f(scale * norm(x));
    static constexpr bool final_norm = true;
};

}  // namespace normplace
