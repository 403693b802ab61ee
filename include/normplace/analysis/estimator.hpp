// SPDX-License-Identifier: BSD-3-Clause
//
// The estimator behind `predict`: through the stack with a placement's formula (moments.hpp), forward with the
// covariances of activations between tokens, backward with those of gradients, and into a report.
#pragma once

#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <normplace/analysis/loss_moments.hpp>
#include <normplace/analysis/stack_moments.hpp>
#include <normplace/placement/placement.hpp>

namespace normplace::detail {

/// The prediction for one input after another, summed into a report: squares of norms, until `finish` takes the roots.
class Estimator {
public:
    Estimator(const AnyPlacement& placement, const ReferenceModel& model)
        : placement_(placement),
          model_(with_own_norm(placement, model)),
          kernel_(model.activation),
          report_(empty_report(placement, model)),
          scores_(model.sequence) {
        for (LayerReport& layer : report_.layers) layers_.push_back({&layer});
    }
    Estimator(const Estimator&) = delete;
    Estimator& operator=(const Estimator&) = delete;

    /// By what the placement multiplies the second moment of what enters the stack.
    double input_square() const { return detail::input_square(placement_, model_); }

    void add(const PredictionInput& input) {
        sums_.next_input();
        const TokenLayout& layout = input.layout;
        StackMoments stack(placement_, model_, kernel_, softmax_, Depth{});
        sums_.add(report_.input, layout, input.stream);
        stack.forward(layout, input.stream, layers_, scores_, sums_);

        OutputMoments output(placement_, layout, static_cast<double>(model_.width), norm_, true,
                             {.layer = model_.layers, .layers = model_.layers});
        StreamFluctuations fluctuations = stack.output_fluctuations();
        const TokenKernel last = output.forward(stack.output(), fluctuations);
        LossMoments loss = loss_moments(input, model_, last, output.ends_in_norm(), softmax_);
        sums_.add(report_.loss, loss.loss);
        sums_.add(report_.readout, loss.readout);
        if (output.ends_in_norm()) sums_.add(report_.final_norm, norm_.own(loss.final_norm));
        else if (!stack.ends_in_norm())
            sums_.judge(report_.readout, sums_.path.pass_loss(leaning_share(layout, loss), scores_.largest_excess()));

        StreamKernels at_streams = output.backward(std::move(loss.gradient));
        if (!output.norms().empty())
            sums_.add(report_.final_norm,
                      sum_of(output.norms()[0], norm_.own(output.at_final_norm(loss.lean, loss.hidden))));
        const TokenKernel gradient =
            stack.backward(layout, std::move(at_streams), layers_,
                           output.at_first_stream(loss.lean, loss.hidden, stack.output()), scores_, sums_);
        sums_.add_gradient(report_.input, layout, gradient);
        if (input.batch) add_embeddings(*input.batch, layout, gradient);
    }

    GradientReport finish() {
        sums_.finish(report_.input);
        for (LayerReport& layer : report_.layers) sums_.finish(layer);
        sums_.finish(report_.final_norm);
        for (GradientNorm* g : {&report_.readout, &report_.token_embedding, &report_.position_embedding})
            sums_.finish(*g);
        sums_.finish(report_.loss);
        if (sums_.overflow())
            report_.warnings.push_back(
                "a second moment left the range of double precision: the residual stream or its gradient grows without "
                "bound over " +
                std::to_string(model_.layers) + " layers; the numbers behind that point are inf or NaN");
        scores_.warn("the attention", report_.warnings);
        sums_.conclude(report_);
        return std::move(report_);
    }

private:
    // A table's row gathers the gradients of all positions that read it.
    void add_embeddings(const TokenBatch& batch, const TokenLayout& layout, const TokenKernel& gradient) {
        double token = 0.0, position = 0.0;
        for (const TokenLayout::Block& block : layout.blocks())
            for (std::size_t i = 0; i < block.size; ++i)
                for (std::size_t j = 0; j < block.size; ++j) {
                    const double g = block.multiplicity * gradient[block.first + i * block.size + j];
                    if (batch.tokens[block.row + i] == batch.tokens[block.column + j]) token += g;
                    if (i == j) position += g;
                }
        const double width = static_cast<double>(model_.width);
        sums_.add(report_.token_embedding, width * token);
        sums_.add(report_.position_embedding, width * position);
    }

    AnyPlacement placement_;
    ReferenceModel model_;
    const NormMoments norm_{model_.norm, static_cast<double>(model_.width), model_.epsilon};
    ActivationKernel kernel_;
    SoftmaxTable softmax_;
    GradientReport report_;
    std::vector<ReportedLayer> layers_;
    ReportSums sums_;
    ScoreRange scores_;
};

}  // namespace normplace::detail
