// SPDX-License-Identifier: BSD-3-Clause
//
// normplace: where the layer norm goes, and what that does to the gradients. `analysis.hpp` is the predictions alone,
// without xtensor and without a BLAS; `training.hpp` is what training takes besides, and
// `warm_up.hpp` what the first steps of it do.
#pragma once

#include <normplace/analysis.hpp>
#include <normplace/analysis/encoder_decoder.hpp>
#include <normplace/io/report_table.hpp>
#include <normplace/measure/compare.hpp>
#include <normplace/measure/encoder_decoder.hpp>
#include <normplace/measure/measure.hpp>
#include <normplace/nn/any_norm.hpp>
#include <normplace/nn/attention.hpp>
#include <normplace/nn/blas_description.hpp>
#include <normplace/nn/cross_entropy.hpp>
#include <normplace/nn/decoder.hpp>
#include <normplace/nn/dropout.hpp>
#include <normplace/nn/embedding.hpp>
#include <normplace/nn/encoder.hpp>
#include <normplace/nn/feed_forward.hpp>
#include <normplace/nn/linear.hpp>
#include <normplace/nn/norm.hpp>
#include <normplace/nn/parameters.hpp>
#include <normplace/nn/residual_block.hpp>
#include <normplace/placement/visit.hpp>
