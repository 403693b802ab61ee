// SPDX-License-Identifier: BSD-3-Clause
//
// Walks a placement's formula in moments: forward, from the covariances of the stream x to those of the block's output;
// backward, from those of the gradient at the output to those at x. One of the interpreters of the grammar
// (placement/formula.hpp).
//
// Inside one block every expression is, token by token, a x + b F, with F the sublayer's output, independent of x: `x`
// is (1, 0), `f(...)` is (0, 1), a sum adds, a factor multiplies, and a norm divides both by the root of the second
// moment a^2 K_ii + b^2 F_ii + epsilon. So covariances are a_i a_j K_ij + b_i b_j F_ij, and x + norm(x) is no special
// case. Backward, each node has one path to the root, and its gradient is the root's times the factors on that path.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include <normplace/analysis/fluctuation.hpp>
#include <normplace/analysis/token_kernel.hpp>
#include <normplace/placement/formula.hpp>

namespace normplace {

/// Expected squared gradient norms of a norm's gain and bias.
struct NormSquares {
    double gain = 0.0, bias = 0.0;
};

/// One residual block: the formula of `P` around one sublayer (sublayer_moments.hpp), which maps covariances forward
/// and backward and says how its output fluctuates: transfer(), fresh(Fluctuation) and norm_variance().
template <class P, class Sublayer>
class BlockMoments {
    static constexpr auto slot_names = syntax::slots(P::formula);

public:
    BlockMoments(const TokenLayout& layout, double width, double epsilon, const Depth& depth, Sublayer& sublayer)
        : layout_(layout), width_(width), epsilon_(epsilon), depth_(depth), sublayer_(sublayer) {}

    /// Covariances of the block's output; `fluctuation`, of the stream, becomes that of the output.
    TokenKernel forward(const TokenKernel& stream, Fluctuation& fluctuation) {
        return combine(enter(stream, fluctuation));
    }
    /// What backward needs of forward, without the output.
    void prepare(const TokenKernel& stream, Fluctuation fluctuation) { enter(stream, fluctuation); }

    /// Covariances of the gradient at x, from those at the block's output. Needs forward's state.
    TokenKernel backward(const TokenKernel& gradient) {
        const PerToken nothing(layout_.classes(), 0.0);
        root_ = &gradient;
        to_stream_ = to_input_ = nothing;
        inside_ = false;
        walk_back(P::formula, PerToken(layout_.classes(), 1.0));
        TokenKernel result(layout_.entries());
        layout_.for_each_entry([&](std::size_t e, std::size_t i, std::size_t j) {
            result[e] = to_stream_[i] * to_stream_[j] * gradient[e] + to_input_[i] * to_input_[j] * input_gradient_[e];
        });
        return result;
    }

    /// In the order of the formula's slots; backward fills it.
    std::array<NormSquares, slot_names.size()> norms{};

private:
    struct Coefficients {
        PerToken stream, branch;
        double stream_norm = 0.0, branch_norm = 0.0;  // relative variances of the two parts' squared norms
        bool normalised = false;                      // a norm, perhaps times a factor
        double widening = 0.0;                        // what the norm adds to 1 - rho, relative
        double log_spread = 0.0;                      // and to the variance of its logarithm
    };

    Coefficients enter(const TokenKernel& stream, Fluctuation& fluctuation) {
        stream_ = stream;
        stream_mean_ = mean_within(layout_, stream);
        fluctuation_ = fluctuation;
        fluctuation_.spread = stream_mean_.same - stream_mean_.different;
        const Coefficients root = walk(P::formula);
        fluctuation.relative = combined_relative(
            fluctuation_, branch_mean_.same - branch_mean_.different, mean_square(root.stream),
            mean_square(root.branch), sublayer_.transfer() * input_square_, sublayer_.fresh(fluctuation_), width_);
        fluctuation.norm = norm_variance(root);
        fluctuation.log_spread = fluctuation_.log_spread + root.log_spread;
        return root;
    }

    // Of a x + b F: the two parts' own, and the fluctuating product x.F.
    double norm_variance(const Coefficients& c) const {
        if (c.normalised) return 0.0;
        const double x = mean_square(c.stream) * stream_mean_.same, f = mean_square(c.branch) * branch_mean_.same;
        const double total = x + f;
        if (!(total > 0.0)) return 0.0;
        return (x * x * c.stream_norm + f * f * c.branch_norm + 4.0 * x * f / width_) / (total * total);
    }

    // What dividing by a fluctuating norm does to 1 - rho. The mean grows by the norm's relative variance, less the
    // part of the differences that points along the token and is lost, 1/D; a stream that was normalised before has
    // lost it already. Tokens that are not aligned fluctuate apart, hence the powers of rho (see combine).
    void widen(Coefficients& c) const {
        const double variance = norm_variance(c), a = mean_square(c.stream), b = mean_square(c.branch);
        const double x = a * stream_mean_.same, f = b * branch_mean_.same;
        const double x_spread = a * fluctuation_.spread, f_spread = b * (branch_mean_.same - branch_mean_.different);
        if (!(x + f > 0.0) || !(x_spread + f_spread > 0.0)) return;
        const double kept = c.stream_norm > 0.0 ? 0.0 : x / (x + f) * x_spread / (x_spread + f_spread);
        const double rho = 1.0 - (x_spread + f_spread) / (x + f);
        c.widening = variance - (1.0 - kept) / width_;
        c.log_spread = variance * rho * rho;
    }

    static double mean_square(const PerToken& factors) {
        double sum = 0.0;
        for (const double factor : factors) sum += factor * factor;
        return sum / static_cast<double>(factors.size());
    }
    TokenKernel combine(const Coefficients& c) const {
        TokenKernel result(layout_.entries());
        const bool has_branch = branch_.size() > 0;
        layout_.for_each_entry([&](std::size_t e, std::size_t i, std::size_t j) {
            result[e] = c.stream[i] * c.stream[j] * stream_[e];
            if (has_branch) result[e] += c.branch[i] * c.branch[j] * branch_[e];
        });
        if (c.widening == 0.0) return result;
        // 1 - rho times 1 + widening rho (1 + rho)/2: for Gaussian vectors, where widening = 1/D, Fisher's mean of a
        // sample correlation.
        PerToken root = layout_.diagonal_of(result);
        for (double& q : root) q = std::sqrt(q);
        layout_.for_each_entry([&](std::size_t e, std::size_t i, std::size_t j) {
            const double scale = root[i] * root[j], rho = scale > 0.0 ? std::fmin(result[e] / scale, 1.0) : 0.0;
            result[e] -= 0.5 * c.widening * scale * rho * (1.0 - rho * rho);
        });
        return result;
    }

    Coefficients walk(syntax::Stream) {
        return {PerToken(layout_.classes(), 1.0), PerToken(layout_.classes(), 0.0), fluctuation_.norm};
    }
    template <class Input>
    Coefficients walk(const syntax::Sublayer<Input>& e) {
        branch_ = {};  // its input holds no F
        branch_mean_ = {0.0, 0.0};
        const Coefficients input = walk(e.input);
        input_square_ = mean_square(input.stream);
        const double input_norm = norm_variance(input);
        branch_ = sublayer_.forward(combine(input), {input_square_ * fluctuation_.spread, fluctuation_.relative,
                                                     input_norm, fluctuation_.log_spread + input.log_spread});
        branch_mean_ = mean_within(layout_, branch_);
        return {PerToken(layout_.classes(), 0.0), PerToken(layout_.classes(), 1.0), 0.0,
                input_norm + sublayer_.norm_variance()};
    }
    template <Label slot, class Input>
    Coefficients walk(const syntax::Norm<slot, Input>& e) {
        Coefficients c = walk(e.input);
        widen(c);
        constexpr std::size_t index = syntax::slot_index(slot_names, slot);
        inverse_square_[index] = mean_square(c.stream) == 0.0 ? 1.0 + norm_variance(c) : 1.0;
        c.stream_norm = c.branch_norm = 0.0;
        c.normalised = true;
        PerToken& root = roots_[index];
        root = PerToken(layout_.classes());
        for (std::size_t i = 0; i < root.size(); ++i) {
            const std::size_t entry = layout_.diagonal(i);
            double q = c.stream[i] * c.stream[i] * stream_[entry] + epsilon_;
            if (c.branch[i] != 0.0) q += c.branch[i] * c.branch[i] * branch_[entry];
            root[i] = std::sqrt(q);
            c.stream[i] /= root[i];
            c.branch[i] /= root[i];
        }
        outputs_[index] = c;
        return c;
    }
    template <class Left, class Right>
    Coefficients walk(const syntax::Sum<Left, Right>& e) {
        Coefficients c = walk(e.left);
        const Coefficients other = walk(e.right);
        for (std::size_t i = 0; i < c.stream.size(); ++i) {
            c.stream[i] += other.stream[i];
            c.branch[i] += other.branch[i];
        }
        c.stream_norm = std::fmax(c.stream_norm, other.stream_norm);
        c.branch_norm = std::fmax(c.branch_norm, other.branch_norm);
        c.normalised = false;
        c.widening = c.log_spread = 0.0;
        return c;
    }
    template <class Input>
    Coefficients walk(const syntax::Scaled<Input>& e) {
        Coefficients c = walk(e.input);
        const double factor = e.factor.at(depth_);
        for (double& a : c.stream) a *= factor;
        for (double& b : c.branch) b *= factor;
        return c;
    }

    // `path` is the product of the factors between a node and the root, or f's input when the node is inside f.
    void walk_back(syntax::Stream, const PerToken& path) {
        PerToken& sum = inside_ ? to_input_ : to_stream_;
        for (std::size_t i = 0; i < path.size(); ++i) sum[i] += path[i];
    }
    template <class Input>
    void walk_back(const syntax::Sublayer<Input>& e, const PerToken& path) {
        TokenKernel gradient(layout_.entries());
        layout_.for_each_entry(
            [&](std::size_t k, std::size_t i, std::size_t j) { gradient[k] = path[i] * path[j] * (*root_)[k]; });
        input_gradient_ = sublayer_.backward(gradient);
        inside_ = true;
        walk_back(e.input, PerToken(path.size(), 1.0));
        inside_ = false;
    }
    template <Label slot, class Input>
    void walk_back(const syntax::Norm<slot, Input>& e, PerToken path) {
        constexpr std::size_t index = syntax::slot_index(slot_names, slot);
        const TokenKernel& source = inside_ ? input_gradient_ : *root_;
        TokenKernel gradient(layout_.entries());
        layout_.for_each_entry(
            [&](std::size_t k, std::size_t i, std::size_t j) { gradient[k] = path[i] * path[j] * source[k]; });
        norms[index] = {width_ * layout_.inner(gradient, combine(outputs_[index])), width_ * layout_.total(gradient)};
        // E 1/q exceeds 1/E q by q's relative variance; against that the Jacobian's projection along the token takes
        // 1/D away. Of a Gaussian vector, whose variance is 2/D, the square so gains 1/D in all, under either norm.
        // That is derived. That the gain is nothing where the stream passes the norm, and all of the variance for a
        // branch alone, are estimates. Measured: Peri-LN's matrices were 1.3 % too low without this factor and are
        // within 0.3 % with it, while one layer's W_q went from 1.001 to 1.011 of the measured.
        const double excess = std::sqrt(inverse_square_[index]);
        for (std::size_t i = 0; i < path.size(); ++i) path[i] *= excess / roots_[index][i];
        walk_back(e.input, path);
    }
    template <class Left, class Right>
    void walk_back(const syntax::Sum<Left, Right>& e, const PerToken& path) {
        walk_back(e.left, path);
        walk_back(e.right, path);
    }
    template <class Input>
    void walk_back(const syntax::Scaled<Input>& e, PerToken path) {
        const double factor = e.factor.at(depth_);
        for (double& p : path) p *= factor;
        walk_back(e.input, path);
    }

    const TokenLayout& layout_;
    double width_, epsilon_;
    Depth depth_;
    Sublayer& sublayer_;
    TokenKernel stream_, branch_, input_gradient_;
    const TokenKernel* root_ = nullptr;
    PerToken to_stream_, to_input_;
    std::array<PerToken, slot_names.size()> roots_{};
    std::array<Coefficients, slot_names.size()> outputs_{};
    std::array<double, slot_names.size()> inverse_square_{};
    bool inside_ = false;
    Fluctuation fluctuation_;
    WithinMean stream_mean_{}, branch_mean_{};
    double input_square_ = 0.0;
};

}  // namespace normplace
