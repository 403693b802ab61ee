// SPDX-License-Identifier: BSD-3-Clause
//
// Walks a placement's formula in moments: forward, from the covariances of the stream x to those of the block's output;
// backward, from those of the gradient at the output to those at x. One of the four interpreters of the grammar
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

/// One residual block: the formula of `P` around one sublayer, which has forward(TokenKernel) and
/// backward(TokenKernel).
template <class P, class Sublayer>
class BlockMoments {
    static constexpr auto slot_names = syntax::slots(P::formula);

public:
    BlockMoments(const TokenLayout& layout, double width, double epsilon, const Depth& depth, Sublayer& sublayer)
        : layout_(layout), width_(width), epsilon_(epsilon), depth_(depth), sublayer_(sublayer) {}

    /// Covariances of the block's output; `fluctuation`, of the stream, becomes that of the output.
    TokenKernel forward(const TokenKernel& stream, Fluctuation& fluctuation) {
        stream_ = stream;
        fluctuation_ = fluctuation;
        fluctuation_.spread = spread(layout_, stream);
        const Coefficients root = walk(P::formula);
        fluctuation = combine_fluctuations(fluctuation_, spread(layout_, branch_), mean_square(root.stream),
                                           mean_square(root.branch), sublayer_.transfer() * input_square_,
                                           sublayer_.fresh(fluctuation_), width_);
        return combine(root);
    }

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
    };

    static double mean_square(const PerToken& factors) {
        double sum = 0.0;
        for (const double factor : factors) sum += factor * factor;
        return sum / static_cast<double>(factors.size());
    }
    TokenKernel combine(const Coefficients& c) const {
        TokenKernel result(layout_.entries());
        const bool has_branch = !branch_.empty();
        layout_.for_each_entry([&](std::size_t e, std::size_t i, std::size_t j) {
            result[e] = c.stream[i] * c.stream[j] * stream_[e];
            if (has_branch) result[e] += c.branch[i] * c.branch[j] * branch_[e];
        });
        return result;
    }

    Coefficients walk(syntax::Stream) { return {PerToken(layout_.classes(), 1.0), PerToken(layout_.classes(), 0.0)}; }
    template <class Input>
    Coefficients walk(const syntax::Sublayer<Input>& e) {
        branch_.clear();  // its input holds no F
        const Coefficients input = walk(e.input);
        input_square_ = mean_square(input.stream);
        branch_ = sublayer_.forward(combine(input), {input_square_ * fluctuation_.spread, fluctuation_.relative});
        return {PerToken(layout_.classes(), 0.0), PerToken(layout_.classes(), 1.0)};
    }
    template <Label slot, class Input>
    Coefficients walk(const syntax::Norm<slot, Input>& e) {
        Coefficients c = walk(e.input);
        PerToken& root = roots_[syntax::slot_index(slot_names, slot)];
        root.resize(layout_.classes());
        for (std::size_t i = 0; i < root.size(); ++i) {
            const std::size_t entry = layout_.diagonal(i);
            double q = c.stream[i] * c.stream[i] * stream_[entry] + epsilon_;
            if (c.branch[i] != 0.0) q += c.branch[i] * c.branch[i] * branch_[entry];
            root[i] = std::sqrt(q);
            c.stream[i] /= root[i];
            c.branch[i] /= root[i];
        }
        outputs_[syntax::slot_index(slot_names, slot)] = c;
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
        for (std::size_t i = 0; i < path.size(); ++i) path[i] /= roots_[index][i];
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
    bool inside_ = false;
    Fluctuation fluctuation_;
    double input_square_ = 0.0;
};

}  // namespace normplace
